"""A box: one copy of the working directory in which several commands of a submission run after one another.

`child.run` throws its copy away after each command. What a box holds stays until it is closed, so a test can start a
daemon in one command and ask it something in the next, lay out whole trees, and look at modes and links afterwards. The
commands run as `child.run` runs them: as an unprivileged user where the tests run as root, with a deadline and limits.
A test that touches files of a box by itself does so `as_child` too, since a command may be alive there.
"""

import http.client
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from child import OUTPUT_LIMIT, _children, _limits, _text, _user, as_child, copied, lay


class Done:
    """A command that ended: its exit status and what it printed."""

    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err

    def __repr__(self):
        return f"Done(code={self.code}, out={self.out[-800:]!r}, err={self.err[-800:]!r})"


class Box:
    """Use it with `with`. `files`: relative name to text or bytes; `links`: name to target; `modes`: name to mode."""

    def __init__(self, files=None, links=None, modes=None, folders=(), bare=False):
        self.top = Path(tempfile.mkdtemp())
        self.folder = copied(self.top, bare=bare)
        self.started = []
        with as_child():
            self._lay_out(files or {}, links or {}, modes or {}, folders)

    def _lay_out(self, files, links, modes, folders):
        for name in folders:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            lay(self.folder / name, data.encode("utf-8") if isinstance(data, str) else data)
        for name, target in links.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        for name, mode in modes.items():
            (self.folder / name).chmod(mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def path(self, name="."):
        return str(self.folder / name)

    def run(self, argv, stdin="", timeout=10, env=None, cwd="."):
        """Runs a command in the box to its end. What it leaves running lives on until the box is closed."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self._start(argv, subprocess.PIPE, out, err, env, cwd)
            try:
                process.communicate(stdin.encode("utf-8"), timeout=timeout)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{argv} did not end within {timeout} s") from None
            return Done(process.returncode, _text(out), _text(err))

    def start(self, argv, env=None):
        """Starts a command and leaves it running."""
        return self._start(argv, subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL, env, ".")

    @as_child()
    def put(self, name, data):
        (self.folder / name).write_bytes(data.encode("utf-8") if isinstance(data, str) else data)

    @as_child()
    def bytes(self, name):
        """The content of one regular file, None where there is none."""
        path = self.folder / name
        try:
            state = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(state.st_mode):
            return None
        assert state.st_size <= OUTPUT_LIMIT, f"{name} is too large"
        path.chmod(stat.S_IMODE(state.st_mode) | 0o400)
        data = path.read_bytes()
        path.chmod(stat.S_IMODE(state.st_mode))
        return data

    def text(self, name):
        data = self.bytes(name)
        return None if data is None else data.decode("utf-8", "replace")

    @as_child()
    def tree(self, below="."):
        """Relative name to ("folder", mode), ("file", mode) or ("link", target) of all that lies below a folder."""
        top, found = self.folder / below, {}
        waiting = [top]
        while waiting:
            here = waiting.pop()
            mode = stat.S_IMODE(here.lstat().st_mode)
            here.chmod(mode | 0o500)
            for path in sorted(here.iterdir()):
                state, name = path.lstat(), str(path.relative_to(top))
                if stat.S_ISLNK(state.st_mode):
                    found[name] = ("link", os.readlink(path))
                elif stat.S_ISDIR(state.st_mode):
                    found[name] = ("folder", stat.S_IMODE(state.st_mode))
                    waiting.append(path)
                else:
                    found[name] = ("file", stat.S_IMODE(state.st_mode))
            here.chmod(mode)
        return found

    def close(self):
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            process.wait()
        for _ in range(200):
            orphans = _children()
            if not orphans:
                break
            for pid in orphans:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except (ProcessLookupError, ChildProcessError, PermissionError):
                    pass
        with as_child():
            for here, folders, _ in os.walk(self.top):
                for name in folders:
                    with suppress(PermissionError):  # the test's own
                        if not os.path.islink(os.path.join(here, name)):
                            os.chmod(os.path.join(here, name), 0o700)
        shutil.rmtree(self.top, ignore_errors=True)

    def _start(self, argv, stdin, out, err, env, cwd):
        base = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        process = subprocess.Popen(
            argv,
            cwd=self.folder / cwd,
            env={**base, "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", **(env or {})},
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_limits,
            **_user(),
        )
        self.started.append(process)
        return process


def free_port():
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for_port(port, process=None, seconds=15):
    """Waits until somebody listens on a port."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process is None or process.poll() is None, "the server ended before it listened"
            time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port} after {seconds} s")


def ask(port, method, path, body=None, headers=None, timeout=10):
    """One HTTP request: (status, headers with lower-case names, body as bytes)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        data = answer.read(OUTPUT_LIMIT)
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, data
    except (OSError, http.client.HTTPException) as error:
        raise AssertionError(f"{method} {path}: {error!r}") from None
    finally:
        connection.close()
