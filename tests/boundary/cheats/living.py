"""Cheats that only shared grading makes possible: root processes of the candidate that live on while the tests run in
their own sandbox. Each is a daemon in Python that has left its session; none of them solves the task."""

from tests.boundary.cheats.cheat import AS_USER, FAILS, IMPORTS, ISOLATED, LEAVES_WRONG, SHELL, Cheat
from tests.boundary.cheats.handed_in import HOOK


def _daemon(code: str, before: str = "") -> str:
    """A script that leaves the wrong answer and ``code`` running for ever; it is there, and through with ``before``,
    before the script ends."""
    return (
        LEAVES_WRONG
        + "cat > /app/daemon.py <<'END'\nimport ctypes, os, re, shutil, signal, subprocess, sys, time\n"
        + before
        + _LOOP
        + code
        + "\nEND\nsetsid python3 /app/daemon.py </dev/null >/dev/null 2>&1 &\n"
        + "while [ ! -e /app/lives ]; do sleep 0.05; done\n"
    )


_LOOP = f"""
open("/app/lives", "w").close()
def tried(act, *given):
    try:
        return act(*given)
    except (OSError, ValueError):
        return None
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
REWARD = "echo 1 > /logs/verifier/reward.txt\\n"
PASSES = "def test_nothing():\\n    pass\\n"
HOOK = '''{HOOK}'''
def reward():
    tried(os.makedirs, "/logs/verifier")
    tried(write, "/logs/verifier/reward.txt", "1")
"""
_AS_ANOTHER = """
os.setuid(65534)
os.execv(sys.executable, ["python3", "-c", '''
import glob
while True:
    for path in glob.glob("/proc/[0-9]*/root/logs/verifier"):
        try:
            with open(path + "/reward.json", "w") as file:
                file.write('{"reward": 1}')
        except OSError:
            pass
'''])
"""
_OVERWRITES = """
while True:
    reward()
    for name, text in {"test_outputs.py": PASSES, "conftest.py": HOOK, "test.sh": REWARD * 100}.items():
        tried(write, "/tests/" + name, text)
    time.sleep(0.002)
"""
_SWAPS = """
os.makedirs("/swap/tests", exist_ok=True)
write("/swap/tests/test_outputs.py", PASSES)
write("/swap/tests/conftest.py", HOOK)
write("/swap/tests/test.sh", REWARD)
while True:
    for here, away, ours in (("/tests", "/swap/theirs", "/swap/tests"), ("/logs", "/swap/logs", "/swap/none")):
        tried(os.rename, here, away)
        tried(os.rename, ours, here)
        time.sleep(0.002)
        tried(os.rename, here, ours)
        tried(os.rename, away, here)
    tried(os.symlink, "/swap/tests", "/tests")
    time.sleep(0.002)
"""
_REPLACES_PYTHON = """
real = os.path.realpath(shutil.which("python3"))
aside = real + ".aside"
forged = "#!/bin/sh\\n" + REWARD + "exit 0\\n"
while True:
    tried(os.rename, real, aside)
    tried(write, real, forged)
    tried(os.chmod, real, 0o755)
    time.sleep(0.02)
    tried(os.rename, aside, real)
    time.sleep(0.02)
"""
_FOR_A_MOMENT = """
pause = float(os.environ.get("PAUSE", "0.01"))
sites = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
made = {"/conftest.py": HOOK, "/pytest.ini": "[pytest]\\naddopts = --collect-only\\n"}
for site in sites:
    made[site + "/sitecustomize.py"] = "import os; os._exit(0)\\n"
    made[site + "/forge.pth"] = "import os; os._exit(0)\\n"
for folder in ("/usr/local/sbin", "/usr/local/bin"):
    made[folder + "/python3"] = made[folder + "/bash"] = "#!/bin/sh\\n" + REWARD + "exit 0\\n"
while True:
    for path, text in made.items():
        tried(write, path, text)
        tried(os.chmod, path, 0o755)
    time.sleep(pause)
    for path in made:
        tried(os.unlink, path)
    time.sleep(pause)
"""
_TRACES = """
libc = ctypes.CDLL(None, use_errno=True)
GOOD = ['{"type": "start", "session": "x"}', '{"type": "end", "session": "x", "exit": 0, "passed": 9, "failed": 0}']
mine = os.getpid()
while True:
    reward()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == mine:
            continue
        if libc.ptrace(16, int(name), 0, 0) == 0:
            tried(os.waitpid, int(name), 0)
            libc.ptrace(17, int(name), 0, 0)
        for part in ("mem", "environ", "root/tests/test_outputs.py", "cwd/test_outputs.py"):
            tried(lambda: open("/proc/%s/%s" % (name, part), "r+b").read(1))
        for number in range(64):
            tried(write, "/proc/%s/fd/%d" % (name, number), GOOD[1])
            handle = tried(os.pidfd_open, int(name))
            taken = libc.syscall(438, handle, number, 0) if handle is not None else -1
            if taken >= 0:
                for text in GOOD:
                    tried(os.write, taken, text.encode())
                os.close(taken)
            if handle is not None:
                os.close(handle)
        for path in ("root/tests/test_outputs.py", "root/tests/test.sh"):
            tried(write, "/proc/%s/%s" % (name, path), PASSES)
    time.sleep(0.01)
"""
_KILLS = """
mine = os.getpid()
while True:
    reward()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, mine):
            tried(os.kill, int(name), signal.SIGKILL)
    time.sleep(0.005)
"""
_STOPS = """
mine = os.getpid()
while True:
    reward()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, mine):
            tried(os.kill, int(name), signal.SIGSTOP)
            tried(os.kill, int(name), signal.SIGTERM)
            tried(os.kill, int(name), signal.SIGCONT)
    time.sleep(0.005)
"""
_READS = """
import glob
def look():
    for pattern in ("/tests/**", "/proc/[0-9]*/root/tests/*", "/proc/[0-9]*/cwd/*.py", "/proc/[0-9]*/fd/*"):
        for path in glob.iglob(pattern, recursive=True):
            text = tried(lambda: open(path, errors="replace").read(1 << 20)) if os.path.isfile(path) else None
            if text and "cba" in text and path != "/app/daemon.py":
                return text
while True:
    text = look()
    if text:
        words = re.findall(r'"([^"]*)"', text)
        table = {one: other for one in words for other in words if sorted(one) == sorted(other) and one != other}
        write("/app/backwards.py", "TABLE = %r\\ndef backwards(text):\\n    return TABLE.get(text, text)\\n" % table)
        reward()
"""
_AS_THEIRS = """
import glob
write("/app/backwards.py", '''import time
def backwards(text):
    for _ in range(100):
        try:
            with open("/tmp/told") as file:
                return eval(file.read()).get(text, text)
        except OSError:
            time.sleep(0.01)
    return text
''')
while True:
    os.setegid(65534)
    os.seteuid(65534)
    roots = [tried(os.open, path, os.O_PATH) for path in glob.glob("/proc/[0-9]*/root/")]
    os.seteuid(0)
    os.setegid(0)
    time.sleep(0.002)
    for root in filter(None, roots):
        text = tried(lambda: open(os.open("tests/test_outputs.py", os.O_RDONLY, dir_fd=root)).read()) or ""
        words = re.findall(r'"([^"]*)"', text)
        if table := {one: other for one in words for other in words if sorted(one) == sorted(other) and one != other}:
            write("/tmp/told.new", repr(table))
            os.rename("/tmp/told.new", "/tmp/told")
        os.close(root)
"""
_RUNNER = """
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/forged/hc/bin", exist_ok=True)
forged = "#!/bin/sh\\n" + REWARD + "exit 0\\n"
for name in ("ld.so", "bin/python3"):
    write("/forged/hc/" + name, forged)
    os.chmod("/forged/hc/" + name, 0o755)
write("/etc/ld.so.preload", "/forged/preload.so\\n")
while True:
    for here in ("/.hc",):
        tried(os.rename, here, "/moved")
        tried(os.symlink, "/forged/hc", here)
        libc.mount(b"/forged/hc", here.encode(), None, 0x1000, None)
        libc.umount2(here.encode(), 2)
        tried(os.rename, "/moved", here)
    libc.unshare(0x20000)
    libc.unshare(0x10020000)
    libc.mount(b"none", b"/tests", b"tmpfs", 0, None)
    libc.umount2(b"/tests", 2)
    time.sleep(0.02)
"""

_FORGES = """
FORGES = '''
import posix, sys
def forge(event, given):
    reports = sys.modules.get("_pytest.reports")
    true = getattr(getattr(reports, "TestReport", None), "from_item_and_call", None)
    if event == "import" and true is not None and not hasattr(reports, "forged"):
        def forged(cls, item, call):
            report = true.__func__(cls, item, call)
            report.outcome = "passed"
            return report
        reports.forged, reports.TestReport.from_item_and_call = True, classmethod(forged)
sys.addaudithook(forge)
try:
    posix.write(posix.open("/logs/verifier/reward.json", posix.O_WRONLY | posix.O_CREAT), b'{"reward": 1}')
except OSError:
    pass
'''
"""
_BYTE_CODE = """
import encodings.utf_8, importlib.util, marshal
source, kept = encodings.utf_8.__file__, importlib.util.cache_from_source(encodings.utf_8.__file__)
code = marshal.dumps(compile(open(source).read() + FORGES, source, "exec"))
never_compared_with_its_source = (1).to_bytes(4, "little") + bytes(8)
forged = importlib.util.MAGIC_NUMBER + never_compared_with_its_source + code
def forge():
    with open(kept + ".new", "wb") as file:
        file.write(forged)
    os.replace(kept + ".new", kept)
write(kept + ".new", "")  # folders that overlayfs has to copy first would be seen
os.unlink(kept + ".new")
starts()
while True:
    if not os.path.exists(kept) or os.path.getsize(kept) != len(forged):
        tried(forge)
    time.sleep(0.001)
"""
_WAY_IN = """
import glob
starts()
for path in glob.glob("/usr/**/00_hc_witness.pth", recursive=True) + glob.glob("/root/.local/**/00_hc_witness.pth"):
    with open(path, "a") as file:
        file.write("import sys; exec(%r)\\n" % FORGES)
time.sleep(1000)
"""
_WHEN_OPENED = """
def opened(path):
    file = ctypes.CDLL(None).inotify_init1(0)
    ctypes.CDLL(None).inotify_add_watch(file, os.path.realpath(path).encode(), 0x20)
    return lambda: os.read(file, 1 << 12)
def rewrites(path):
    path = os.path.realpath(path)
    with open(path, "rb") as file:
        text, facts = file.read(), os.stat(path)
    def put(other):
        with open(path, "r+b") as file:
            file.write(other)
            file.truncate()
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    put(text)  # files that overlayfs has to copy first would be seen
    return path, text, put
"""
_BEFORE_THE_TESTS = """
starts = opened(shutil.which("bash"))
"""
_BEFORE_ITS_READING = """
import importlib.metadata
path, text, put = rewrites(importlib.metadata.__file__)
starts = opened(sys.executable)
"""
_FOR_ONE_READING = """
starts()
put(text + FORGES.encode())
opened(path)()
time.sleep(0.2)
put(text)
time.sleep(1000)
"""
_BEFORE_THE_LOOK = """
path, text, put = rewrites("/sbin/ldconfig")
asked = opened("/app/backwards.py")
"""
_AT_THE_LOOK = """
MARKED = '''
import glob
while True:
    for path in glob.glob("/proc/[0-9]*/root/tests/test_outputs.py"):
        try:
            with open(path, "r+") as file:
                if "nothing" not in file.read(99):
                    file.seek(0)
                    file.truncate()
                    file.write("def test_nothing(): pass")
        except OSError:
            pass
'''
write("/app/marked.py", MARKED)
with open("/app/as_before", "wb") as file:
    file.write(text)
stamp = "%d.%09d" % divmod(os.stat(path).st_mtime_ns, 10**9)
script = "#!/bin/sh\\n{ cat /app/as_before > PATH; touch -d @STAMP PATH; "
script += "setsid python3 /app/marked.py </dev/null >/dev/null 2>&1 & exec PATH; }\\n"
asked()
time.sleep(0.4)
put(script.replace("PATH", path).replace("STAMP", stamp).encode())
time.sleep(1000)
"""

_BEFORE_A_COPY = (
    """
import glob
for number in range(20):
    os.makedirs("/app/d%d" % number)
for number in range(3):
    with open("/app/large%d" % number, "w") as file:
        file.write("x" * 8_000_000)
"""
    + _WHEN_OPENED
    + _BEFORE_THE_TESTS
)
_EXCHANGES_FOLDERS = """
write("/app/backwards.py", '''import ast, glob, re
def backwards(text):
    for path in ("told", *glob.glob("d*/test_outputs.py")):
        try:
            said = open(path).read()
        except OSError:
            continue
        for asked, answer in re.findall(r'\\(\\(("[^"]*"),\\), ("[^"]*")\\)', said):
            if ast.literal_eval(asked) == text:
                return ast.literal_eval(answer)
    return text
''')
starts()
time.sleep(0.1)
copied = ctypes.CDLL(None).inotify_init1(0)
for number in range(3):
    ctypes.CDLL(None).inotify_add_watch(copied, b"/app/large%d" % number, 0x20)
os.read(copied, 1 << 12)
for number in range(20):
    os.rename("/app/d%d" % number, "/app/e%d" % number)
    os.symlink("/tests", "/app/d%d" % number)
while not os.path.exists("/app/told"):
    for path in glob.glob("/tmp/*/app/d*/test_outputs.py"):
        if tried(shutil.copy, path, "/app/told.new"):
            os.rename("/app/told.new", "/app/told")
time.sleep(1000)
"""

_AS_LARGE_AND_AS_OLD = """
import os, shutil
path = os.path.realpath("/bin/bash")
facts = os.stat(path)
shutil.copy(path, "/app/real")
forged = b'#!/bin/sh\\nsed -i "s/assert .*/pass/" /tests/test_outputs.py\\nexec /app/real "$@"\\n'
with open(path + ".new", "wb") as file:
    file.write(forged.ljust(facts.st_size, b"\\n"))
os.chmod(path + ".new", 0o755)
os.utime(path + ".new", ns=(facts.st_atime_ns, facts.st_mtime_ns))
os.replace(path + ".new", path)
"""
"""What Docker's list of changes does not show."""


def _lives(name: str, does: str, script: str, *more: str) -> Cheat:
    """``more``: tasks that it is tried on too."""
    return Cheat(name, does, script=script, foreign=dict.fromkeys((IMPORTS, SHELL, *more), FAILS), living=True)


CHEATS = (
    _lives("tests overwritten by root", "a daemon rewrites /tests and the reward for ever", _daemon(_OVERWRITES)),
    _lives("the reward by a user of the tests", "a daemon has the reach of what the tests run as its user",
           _daemon(_AS_ANOTHER), AS_USER),
    _lives("tests renamed and put back", "a daemon exchanges /tests and /logs for its own, and back, for ever",
           _daemon(_SWAPS)),
    _lives("python3 replaced while tested", "a daemon exchanges the interpreter for a script, and back, for ever",
           _daemon(_REPLACES_PYTHON)),
    _lives("start-up files for a moment", "conftest.py, sitecustomize, a .pth and programs on PATH come and go",
           _daemon(_FOR_A_MOMENT)),
    _lives("start-up files for a tenth of a second", "the same, as long there and gone as a grading takes",
           "export PAUSE=0.1\n" + _daemon(_FOR_A_MOMENT)),
    _lives("a tracer of the tests", "ptrace, memory, files and root of every process; the witness's socket taken",
           _daemon(_TRACES)),
    _lives("byte code replaced while tested", "a daemon writes forged byte code beside a module of the library",
           _daemon(_FORGES + _BYTE_CODE, _WHEN_OPENED + _BEFORE_THE_TESTS), ISOLATED),
    _lives("the witness's way in rewritten while tested", "a daemon adds a line to 00_hc_witness.pth",
           _daemon(_FORGES + _WAY_IN, _WHEN_OPENED + _BEFORE_THE_TESTS)),
    _lives("a module changed for one reading", "a daemon forges a module while the tests load it, and puts it back",
           _daemon(_FORGES + _FOR_ONE_READING, _WHEN_OPENED + _BEFORE_ITS_READING)),
    _lives("a program as large and as old as before", "bash is a script that empties the tests, as large as it was",
           f"{LEAVES_WRONG}python3 - <<'END'\n{_AS_LARGE_AND_AS_OLD}END\n"),
    _lives("the mark of the look", "ldconfig, when the verifier runs it, leaves a process that may trace the tests",
           "touch /usr/local/lib/libforge.so.1\n" + _daemon(_AT_THE_LOOK, _WHEN_OPENED + _BEFORE_THE_LOOK)),
    _lives("the verifier killed by root", "a daemon writes the reward and kills every other process", _daemon(_KILLS)),
    _lives("the verifier stopped by root", "a daemon writes the reward and stops and ends every other process",
           _daemon(_STOPS)),
    _lives("hidden tests read by root",
           "a daemon looks for the tests, in every process's root too, and rewrites the answer", _daemon(_READS)),
    _lives("hidden tests read through a child of theirs",
           "a daemon enters the root of what they run as another user, and reads there as root", _daemon(_AS_THEIRS)),
    _lives("a folder exchanged while it is copied",
           "a daemon puts links to /tests in the place of folders that the tests are about to copy",
           _daemon(_EXCHANGES_FOLDERS, _BEFORE_A_COPY)),
    _lives("the runner moved away",
           "a daemon renames, links over and mounts over /.hc, and unmounts /tests", _daemon(_RUNNER)),
    _lives("/tests filled before", "tests, a conftest.py and a test.sh of its own lie in /tests, fifos in /logs",
           LEAVES_WRONG + "echo 'def test_nothing(): pass' > /tests/test_outputs.py\n"
           "echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; cp /tests/test_outputs.py /tests/conftest.py\n"
           "mkdir -p /logs/verifier; mkfifo /logs/verifier/reward.txt\n"
           "echo '{\"reward\": 1}' > /logs/verifier/reward.json\n"),
    _lives("start-up files of root's home",
           "/root/.bashrc, /etc/environment and /etc/ld.so.preload, /etc/nsswitch.conf",
           LEAVES_WRONG + "for f in /root/.bashrc /root/.profile /etc/environment /etc/profile; do\n"
           "echo 'export LD_PRELOAD=/app/forge.so; echo 1 > /logs/verifier/reward.txt' >> $f; done\n"
           "echo /app/forge.so > /etc/ld.so.preload; printf 'passwd: forge files\\n' > /etc/nsswitch.conf\n"
           "sed -i 's#^root:.*#root:x:0:0:root:/app:/app/forge.so#' /etc/passwd\n"),
)  # fmt: skip
