import json
import os
import sys

import pytest

from tests.fakes.processes import ran


def at(name: str, folder: str, flags: str = "0") -> str:
    """The code that opens a name relative to a folder that it names."""
    return f"guard.open_at('{name}', {flags}, os.open({folder}, 0))"


ELSEWHERE = "os.chdir(root); open('sealed/test.sh')"
MOVED = """
folder, target = os.open(root / 'folder', os.O_PATH), os.open(root, 0)
os.rename('test.sh', 'moved', src_dir_fd=folder, dst_dir_fd=target)
"""
NAMED = """
os.chdir('/')
os.link('sealed/test.sh', 'named', src_dir_fd=os.open(root, 0), dst_dir_fd=os.open(root, 0))
"""
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/proc/self/fd')) - 1, 64))
os.truncate(root / 'hard', 0)
"""
LATE = """
import time
open(root / 'twin').close()
subprocess.run(['ln', 'sealed/data.db', 'late'], cwd=root)
time.sleep(1.1)
open(root / 'late')
"""
OUT = """
folder = os.open(root, 0)
os.rename('sealed/out', 'o', src_dir_fd=folder, dst_dir_fd=folder)
"""
HERE = """
os.chdir(root)
os.rename('sealed/test.sh', 'moved')
"""
WAYS = {
    "by its path": "open(sealed / 'test.sh')",
    "as bytes": "open(os.fsencode(sealed / 'test.sh'), 'rb')",
    "through pathlib": "(sealed / 'test.sh').read_text()",
    "by a relative path": "os.chdir(root.parent); open('root/sealed/test.sh')",
    "by a path with dots": "open(root / 'other' / '..' / 'sealed' / 'test.sh')",
    "by a symbolic link": "open(root / 'symbolic')",
    "through a folder that is a symbolic link": "open(root / 'folder' / 'test.sh')",
    "by a hard link": "open(root / 'hard')",
    "by a hard link made later": "subprocess.run(['ln', 'x', 'y'], cwd=root); open(root / 'hard')",
    "by os.open": "os.open(sealed / 'test.sh', os.O_RDONLY)",
    "relative to a folder that is open": "os.open('sealed/test.sh', os.O_RDONLY, dir_fd=os.open(root, os.O_RDONLY))",
    "relative to a folder that is named": at("sealed/test.sh", "root"),
    "by a link in a folder that is named": at("symbolic", "root"),
    "by a hard link in a folder that is named": at("hard", "root"),
    "by a hard link in a folder that is named, without following links": at("hard", "root", "os.O_NOFOLLOW"),
    "by its own name in its folder, without following links": at("test.sh", "root / 'folder'", "os.O_NOFOLLOW"),
    "by a folder that is a link, in a folder that is named": at("folder/test.sh", "root"),
    "relative to another folder than the one that was named": at("sealed-not", "root") + "\n" + ELSEWHERE,
    "by a link to nowhere yet": "open(root / 'dangling', 'w')",
    "by a new name": "open(sealed / 'new', 'w')",
    "by a new name through a folder that is a link": "open(root / 'folder' / 'new', 'w')",
    "by a new name in a folder that is named": at("new", "sealed", "os.O_CREAT"),
    "by a link that is made to it": "os.symlink(sealed / 'test.sh', root / 'made')",
    "by a relative link that is made to it": "os.symlink('../sealed/test.sh', root / 'other' / 'made')",
    "by a link that is made in an open folder": "os.symlink('sealed/test.sh', 'made', dir_fd=os.open(root, 0))",
    "by moving it out of an open folder": MOVED,
    "by linking to it from an open folder": NAMED,
    "by a sealed link that leads out": OUT,
    "by a sealed link that leads out, in a folder that is named": at("sealed/out", "root"),
    "by its path, while a folder is named": "guard.open_at(str(sealed / 'out'), 0, os.open('/', 0))",
    "by a relative path through a link and up again": "os.chdir(root); open('deep/../test.sh')",
    "by moving it, relative to where one works": HERE,
    "by a hard link where no more can be opened": FULL,
    "by a hard link of a file that got it while others looked": LATE,
    "by a descriptor that was inherited": "open('/proc/self/fd/%d' % inherited)",
    "as a descriptor that was inherited": "open(inherited)",
    "by writing over it": "open(sealed / 'test.sh', 'w')",
    "by listing": "os.listdir(sealed)",
    "by walking": "list(os.scandir(sealed))",
    "by copying": "shutil.copyfile(sealed / 'test.sh', root / 'copy')",
    "by copying the folder": "shutil.copytree(sealed, root / 'copies')",
    "by moving it away": "os.rename(sealed, root / 'moved')",
    "by linking to it": "os.link(sealed / 'test.sh', root / 'another')",
    "by going there": "os.chdir(sealed)",
    "as a database": "sqlite3.connect(sealed / 'data.db')",
    "as a database's address": "sqlite3.connect(f'file:{sealed}/data.db?mode=ro', uri=True)",
    "by a program": "subprocess.run(['cat', str(sealed / 'test.sh')])",
    "by the shell": "os.system(f'cat {sealed}/test.sh')",
    "as an archive": "tarfile.open(sealed / 'tests.tar')",
    "as a library": "ctypes.CDLL(str(sealed / 'lib.so'))",
}
LACKING = """
with guard.door(): os.open(sealed, 0)
os.open('sealed-not', 0, dir_fd=os.open(root, 0))
"""
RACE = """
import threading, time
many = sealed / 'many'
with guard.door():
    for number in range(300): (many / str(number) / 'sealed-not').mkdir(parents=True)
until = time.monotonic() + 1.5
def look():
    while time.monotonic() < until:
        os.utime(root / 'twin'); open(root / 'twin').close()
thread = threading.Thread(target=look)
thread.start()
folder = os.open(root, 0)
while time.monotonic() < until: os.close(os.open('sealed-not', 0, dir_fd=folder))
thread.join()
"""
MOVE = """
os.chdir(root); os.mkdir('from'); os.mkdir('to'); open('from/one', 'w').close()
os.rename('one', 'two', src_dir_fd=os.open('from', 0), dst_dir_fd=os.open('to', 0)); assert os.path.exists('to/two')
"""
GONE = """
os.mkdir(root / 'gone'); os.chdir(root / 'gone'); os.rmdir(root / 'gone')
assert not raised(FileNotFoundError, open, 'any')
"""
BOX = """
import time
from hc_ray.domain.filetree import Member
from hc_ray.sandboxes.bwrap.command import Layout
from hc_ray.sandboxes.bwrap.files import RootTree
(root / 'box' / 'root').mkdir(parents=True); (root / 'fork' / 'root').mkdir(parents=True)
one, two = (RootTree(root / name / 'root', Layout(mounts={'/opt/tool': root}), None) for name in ('box', 'fork'))
for name in ('opt', 'l'): one.write(Member(f'/{name}', 'link', target=str(sealed / 'test.sh')))
(one.root / 'file').touch()
for number in range(50): os.link(one.root / 'file', one.root / str(number))
time.sleep(1.1)
walks, walk = [], guard._files_below
guard._files_below = lambda root: walks.append(root) or walk(root)
one.copy_to(two)
assert (two.root / 'file').stat().st_nlink == 51 and len(walks) < 3, len(walks)
assert [os.readlink(two.root / name) for name in ('opt', 'l')] == [str(sealed / 'test.sh')] * 2
two.clear_way()
assert os.path.isdir(two.root / 'opt' / 'tool')
two.remove('/l')
"""
"""What a program in a sandbox made of its files."""
FREE = {"a sandbox that holds links to sealed files": BOX,
        "a neighbour of the sealed root": "open(root / 'sealed-not')", "a file with two names": "open(root / 'twin')",
        "a relative path": "os.chdir(root); open('sealed-not')",
        "a relative path beside open folders": "os.chdir('/'); os.open('sealed-not', 0, dir_fd=os.open(root, 0))",
        "a relative path that an open sealed folder lacks": LACKING,
        "a relative path while another thread looks the sealed files up": RACE,
        "a relative path in a folder that is named": at("sealed-not", "root"),
        "a new name": "open(root / 'new', 'w')",
        "a new name in a folder that is named": at("new", "root", "os.O_CREAT"),
        "a link whose text reads as a sealed path from elsewhere":
            "os.chdir(root); os.symlink('sealed/test.sh', root / 'other' / 'text')",
        "moving from one open folder to another": MOVE,
        "a pipe that nobody writes to": "os.mkfifo(root / 'pipe'); os.close(os.open(root / 'pipe', os.O_NONBLOCK))",
        "an event of somebody's own": "[sys.audit(name, 'a', 'b') for name in ('os.rename', 'os.symlink', 'open')]",
        "a relative path where one's folder was removed": GONE,
        "what is not there": "assert not raised(FileNotFoundError, open, root / 'none' / 'none')",
        "what no path is": "assert not raised(ValueError, open, str(root) + chr(0))",
        "a program": "subprocess.run(['true', str(root)], check=True)",
        "what goes through the door": "with guard.door(): open(sealed / 'test.sh')"}  # fmt: skip
PROBE = """
import ctypes, json, os, shutil, sqlite3, subprocess, sys, tarfile
from pathlib import Path
from hc_ray.machine import sealed_guard as guard
from hc_ray.domain.errors import LeakError
root, inherited, ways = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
sealed = root / "sealed"
guard.install(sealed)
def raised(fault, call, *given):
    try:
        call(*given)
    except fault:
        return None
    return "nothing"
said = {}
for name, code in ways.items():
    pid = os.fork()
    if not pid:
        try:
            exec(code)
        except LeakError:
            os._exit(7)
        except BaseException as fault:
            print(name, repr(fault), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    said[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How each way ended, in a child each of one guarded process: 7 is a leak that was refused."""
    root = tmp_path_factory.mktemp("guarded") / "root"
    sealed = root / "sealed"
    sealed.mkdir(parents=True)
    (root / "other").mkdir()
    for name in ("test.sh", "data.db", "tests.tar", "lib.so"):
        (sealed / name).write_text("exit 0\n")
    (root / "sealed-not").write_text("free")
    (root / "symbolic").symlink_to("sealed/test.sh")
    (root / "folder").symlink_to("sealed")
    (root / "dangling").symlink_to("sealed/none")
    (sealed / "out").symlink_to("../sealed-not")
    (sealed / "sub").mkdir()
    (root / "deep").symlink_to("sealed/sub")
    os.link(sealed / "test.sh", root / "hard")
    os.link(root / "sealed-not", root / "twin")
    with (sealed / "test.sh").open() as held:
        ways = json.dumps({**WAYS, **FREE})
        done = ran(sys.executable, "-c", PROBE, root, held.fileno(), ways, check=True, pass_fds=[held.fileno()])
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", [*WAYS, *FREE])
def test_a_sealed_file_cannot_be_opened_and_everything_else_can(answers: dict[str, int], way: str) -> None:
    assert answers[way] == (7 if way in WAYS else 0)
