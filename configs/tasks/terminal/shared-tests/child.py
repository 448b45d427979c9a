"""Runs what a submission holds in child processes, so that none of its code runs inside the test process.

Every call gets a fresh copy of the working directory, a deadline, an unprivileged user where the tests run as root, and
nothing of the expected values: these stay in the test process. What a call leaves running is killed.
"""

import ctypes
import json
import os
import resource
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

WORKDIR = Path("/app")
NOBODY = 65534
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NOBODYS = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
OUTPUT_LIMIT = 8 * 1024 * 1024
PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT = 4, 8, 36, 47
MARK = 36
"""A harmless capability (CAP_BLOCK_SUSPEND) that the tests may have been given: who lacks it cannot trace who has it."""

# What runs in the child for `call`: the answer is printed after the call, behind a marker made for this call.
CALL = r"""
import importlib.util, json, os, sys
ask = json.loads(sys.stdin.readline())
sys.path.insert(0, os.getcwd())

def plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {"dict": [[plain(key), plain(item)] for key, item in value.items()]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [plain(item) for item in value]}
    return {"other": type(value).__name__}

def rich(value):
    if not isinstance(value, dict):
        return value
    (kind, items), = value.items()
    if kind == "dict":
        return {rich(key): rich(item) for key, item in items}
    return {"list": list, "tuple": tuple, "set": set}[kind](rich(item) for item in items)

spec = importlib.util.spec_from_file_location(ask["module"], ask["file"])
module = importlib.util.module_from_spec(spec)
sys.modules[ask["module"]] = module
spec.loader.exec_module(module)
args = [rich(item) for item in ask["args"]]
try:
    answer = {"value": plain(getattr(module, ask["function"])(*args))}
except Exception as error:
    answer = {"raised": [kind.__name__ for kind in type(error).__mro__], "says": str(error)[:500]}
answer["args"] = [plain(item) for item in args]
sys.stdout.flush()
os.write(1, ("\n" + ask["marker"] + json.dumps(answer) + "\n").encode())
"""

# What runs in the child for `matches`: a regular expression that never ends must not hold up the tests.
MATCH = r"""
import json, re, sys
ask = json.loads(sys.stdin.readline())
pattern = re.compile(ask["pattern"])
print(json.dumps([getattr(pattern, ask["how"])(text) is not None for text in ask["texts"]]))
"""


class Raised:
    """A call that ended with an exception; equal to no value."""

    def __init__(self, kinds, says):
        self.kinds = kinds
        self.says = says

    def __repr__(self):
        return f"Raised({self.kinds[0]}: {self.says})"


class Finished:
    """A command that ended: its exit status, what it printed, and the files that its directory then held."""

    def __init__(self, code, out, err, files):
        self.code = code
        self.out = out
        self.err = err
        self.files = files

    def __repr__(self):
        return f"Finished(code={self.code}, out={self.out[-500:]!r}, err={self.err[-500:]!r})"


def call(file, function, *args, timeout=10):
    """What `function(*args)` of the Python file returns, or `Raised`."""
    return _ask(file, function, args, timeout)[0]


def call_and_arguments(file, function, *args, timeout=10):
    """As `call`, with the arguments as the function left them: (answer, arguments)."""
    return _ask(file, function, args, timeout)


def _ask(file, function, args, timeout):
    marker = secrets.token_hex(16)
    question = {
        "file": file,
        "module": Path(file).stem,
        "function": function,
        "args": [_plain(item) for item in args],
        "marker": marker,
    }
    done = run([sys.executable, "-I", "-B", "-c", CALL], stdin=json.dumps(question) + "\n", timeout=timeout)
    for line in done.out.splitlines():
        if line.startswith(marker):
            answer = json.loads(line[len(marker) :])
            value = Raised(answer["raised"], answer["says"]) if "raised" in answer else _rich(answer["value"])
            return value, [_rich(item) for item in answer["args"]]
    raise AssertionError(f"{file} gave no answer to {function}: {done}")


def matches(file, texts, how="fullmatch", timeout=10):
    """For each text, whether the one regular expression in the file matches it (`fullmatch` or `search`)."""
    pattern = read(file).strip("\r\n")
    question = {"pattern": pattern, "texts": list(texts), "how": how}
    done = run([sys.executable, "-I", "-B", "-c", MATCH], stdin=json.dumps(question) + "\n", timeout=timeout)
    assert done.code == 0, f"{file} holds no regular expression that works: {done}"
    return json.loads(done.out)


def shell(script, *args, stdin="", files=None, timeout=10):
    """Runs a shell script of the working directory with bash, beside the files given (name to text)."""
    return run(["bash", script, *args], stdin=stdin, files=files, timeout=timeout)


def program(source, *args, stdin="", timeout=10):
    """Compiles a C source file of the working directory with gcc and runs the program."""
    command = 'gcc -O1 -o ./compiled-program "$0" -lm && exec ./compiled-program "$@"'
    return run(["sh", "-c", command, source, *args], stdin=stdin, timeout=timeout + 20)


def read(file):
    """The text of a file of the working directory."""
    path = WORKDIR / file
    assert path.is_file() and not path.is_symlink(), f"{file} is missing"
    assert path.stat().st_size <= OUTPUT_LIMIT, f"{file} is too large"
    return path.read_text(encoding="utf-8")


def run(argv, stdin="", files=None, timeout=10):
    """Runs a command in a fresh copy of the working directory."""
    with _copy(files or {}) as folder, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(folder), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_limits,
            **_user(),
        )
        try:
            process.communicate(stdin.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{argv[0]} did not end within {timeout} s") from None
        finally:
            _kill(process)
        left = {path.name: path for path in Path(folder).iterdir() if path.is_file() and not path.is_symlink()}
        texts = {name: path.read_bytes()[:OUTPUT_LIMIT].decode("utf-8", "replace") for name, path in left.items()}
        return Finished(process.returncode, _text(out), _text(err), texts)


@contextmanager
def _copy(files):
    """A copy of the working directory, with the files added, that the child may read and write."""
    top = tempfile.mkdtemp()
    try:
        folder = copied(top, mode=0o777)
        with as_child():
            for name, text in files.items():
                lay(folder / name, text.encode("utf-8"))
                (folder / name).chmod(0o777)
        yield folder
    finally:
        shutil.rmtree(top, ignore_errors=True)


def copied(top, mode=None, bare=False):
    """`app` below a new folder: the working directory again (`bare`: with nothing in it), as the child's own, with the
    modes that it has or `mode`. Whoever lives beside the tests may exchange what lies at a path for a link meanwhile:
    so all is done by descriptors."""
    with _opened(top, _FOLDER) as above, _opened(WORKDIR, _FOLDER) as source:
        os.fchmod(above, 0o755)
        _copy_folder(source, above, "app", mode, bare)
    return Path(top) / "app"


def lay(path, data):
    """Writes a file that is nobody else's, whatever lay there; call it `as_child`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        path.unlink()
    path.write_bytes(data)


def _copy_folder(source, above, name, mode, bare=False):
    os.mkdir(name, 0o700, dir_fd=above)
    with _opened(name, _FOLDER, above) as target:
        for inner in [] if bare else os.listdir(source):
            kind = os.stat(inner, dir_fd=source, follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):  # what it points at is then read with the child's rights
                os.symlink(os.readlink(inner, dir_fd=source), inner, dir_fd=target)
            elif stat.S_ISDIR(kind):
                with _opened(inner, _FOLDER, source) as below:
                    _copy_folder(below, target, inner, mode)
            else:
                _copy_file(source, target, inner, mode)
        _hand_over(target, os.fstat(source), mode)


def _copy_file(source, target, name, mode):
    with _opened(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, source) as read:
        assert stat.S_ISREG(os.fstat(read).st_mode), f"{name} is no file, folder or link"
        with _opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, target) as written:
            with open(read, "rb", closefd=False) as old, open(written, "wb", closefd=False) as new:
                shutil.copyfileobj(old, new, 1 << 20)
            _hand_over(written, os.fstat(read), mode)


def _hand_over(descriptor, facts, mode):
    """Makes the child the owner of a copy of what has these facts."""
    os.utime(descriptor, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    os.fchmod(descriptor, stat.S_IMODE(facts.st_mode) if mode is None else mode)
    if os.geteuid() == 0 and _can_change():
        os.fchown(descriptor, NOBODY, NOBODY)


@contextmanager
def _opened(path, flags, folder=None):
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _user():
    """Arguments that make the child an unprivileged user, where the tests run as root."""
    if os.geteuid() != 0:
        return {}
    if _is_marked():
        ctypes.CDLL(None).prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    return _NOBODYS if _can_change() else {}


@cache
def _can_change():
    try:
        subprocess.run(["true"], preexec_fn=_limits, check=True, **_NOBODYS)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextmanager
def as_child():
    """Does what is done here with the child's rights: a child that lives may exchange a file for a link meanwhile."""
    if not _user():
        yield
        return
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def _limits():
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == NOBODY and _is_marked():
        low, high = 0, 1 << MARK - 32
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
        ctypes.CDLL(None).capset(header, sets)
        ctypes.CDLL(None).prctl(PR_CAP_AMBIENT, 2, MARK, 0, 0)


def _is_marked():
    """Whether this process has the capability that its children are to keep."""
    permitted = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapPrm:"))
    return int(permitted.split()[1], 16) >> MARK & 1 == 1


def _kill(process):
    """Ends the child, its session and whatever it left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    while True:
        orphans = _children()
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                return
        if not orphans:
            return


def _children():
    """Processes whose parent is the test process: as its subreaper it inherits the children of dead children."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                status = Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            if int(status.rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(entry))
    return found


def _text(stream):
    stream.seek(0)
    return stream.read(OUTPUT_LIMIT).decode("utf-8", "replace")


def _plain(value):
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return {kind.__name__: [_plain(item) for item in value]}
    return value


def _rich(value):
    if not isinstance(value, dict):
        return value
    ((kind, items),) = value.items()
    if kind == "dict":
        return {_rich(key): _rich(item) for key, item in items}
    if kind == "other":
        return object()
    return {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind](_rich(item) for item in items)


def protect():
    """Closes the test process and its files to children: its memory, its pipes, and the tests themselves.

    From the tests' folder nothing is imported any more: a child of the same user could have put modules there. The
    tests (already collected) are removed from the container's own copy at /tests: a child may be the same user, and
    whoever lives beside may lead what reads or copies for them there by a link. As root the folder becomes unreadable
    to the unprivileged child.
    """
    try:
        control = ctypes.CDLL(None).prctl
        control(PR_SET_DUMPABLE, 0, 0, 0, 0)
        control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass
    here = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if folder and Path(folder) != here]
    if here != Path("/tests"):
        return
    try:
        if os.geteuid() == 0:
            here.chmod(0o700)
        for path in here.glob("test_*.py"):
            path.unlink()
    except OSError:
        pass
