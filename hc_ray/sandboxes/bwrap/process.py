"""The single long-lived process of a bwrap sandbox, and the requests to its first child, ``inside/init.py``.

bwrap's ``--die-with-parent`` is tied to the thread that starts it, so each sandbox has a thread of its own that starts
bwrap, reads what comes back and lives as long. If this process dies, the kernel ends the sandbox."""

import json
import os
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.runner_paths import machinery_command
from hc_ray.sandboxes.bwrap.binary import LentUser, as_user
from hc_ray.sandboxes.bwrap.command import Layout, Limits, argv
from hc_ray.sandboxes.bwrap.files import RootTree
from hc_ray.sandboxes.inside import frames
from hc_ray.sandboxes.inside.processes import write_all

START_SECONDS = 30.0
DEATH_SECONDS = 10.0
NO_FILES = 1024
_LATE = "it did not start"

Reply = tuple[dict[str, Any], bytes]


class BwrapProcess:
    """A running sandbox. ``why`` is the reason if it was killed."""

    def __init__(
        self,
        bwrap: Path,
        tree: RootTree,
        placed: Layout,
        limits: Limits,
        user: LentUser | None,
        log: Path,
        stir: Callable[[], None],
    ) -> None:
        """``stir`` is called whenever something is asked of it."""
        self._bwrap, self._tree, self._placed, self._user, self._log = bwrap, tree, placed, user, log
        self._stir = stir
        numbers = {"data": limits.memory, "fsize": limits.storage, "nproc": limits.processes, "nofile": NO_FILES}
        self._init = [*machinery_command("init"), *(f"{name}={number}" for name, number in numbers.items())]
        self._begin_lock = threading.Lock()
        self._lock = threading.Lock()
        self._child_lock = threading.Lock()
        self._waiting: dict[int, Future[Reply | None]] = {}
        self._number = 0
        self._ready: Future[None] = Future()
        self._process: subprocess.Popen[bytes] | None = None
        self._child = -1
        """A descriptor of the first process inside; -1 before the start."""
        self._first = -1
        self._over = threading.Event()
        self.asked = object()
        """Changes with every request."""
        self.why = ""
        self._thread = threading.Thread(target=self._live, name="bwrap-sandbox", daemon=True)

    @property
    def pid(self) -> int:
        """bwrap's process id; the whole sandbox is below it."""
        return self._process.pid if self._process else -1

    @property
    def first(self) -> int:
        """The host's process id of the first process inside; -1 if there is none."""
        return self._first if self.alive else -1

    @property
    def at_work(self) -> bool:
        """Whether a command is pending."""
        return bool(self._waiting)

    @property
    def alive(self) -> bool:
        return self._process is not None and not self._over.is_set()

    def start(self) -> None:
        """Start, unless it is running or dead. Raises ``SandboxError`` if the sandbox does not come up."""
        with self._begin_lock:
            if self._over.is_set():
                return
            if self._thread.ident is None:
                self._thread.start()
        try:
            self._ready.result(START_SECONDS)
        except TimeoutError:
            self.kill(_LATE)
            raise SandboxError(f"a bwrap sandbox did not start within {START_SECONDS:.0f} s") from None

    def request(
        self, command: Sequence[str], cwd: str, env: Mapping[str, str], timeout: float, stdin: bytes, limit: int
    ) -> Future[Reply | None]:
        """Start a command; returns a future of its reply, which is None if the sandbox died with it. The first request
        starts the sandbox and waits for it. Raises ``SandboxError`` if it does not come up."""
        self.start()
        future: Future[Reply | None] = Future()
        asked = {"argv": list(command), "cwd": cwd, "env": dict(env), "timeout": timeout, "limit": limit}
        with self._lock:
            if not self.alive:
                future.set_result(None)
                return future
            self._number += 1
            framed = frames.request({"id": self._number, **asked}, stdin)
            self._waiting[self._number] = future
            self.touch()
            self._send(framed)
        if self._over.is_set():  # it died in between, and may have missed this request
            self._fail()
        return future

    def touch(self) -> None:
        """Mark its state as changed since the last check."""
        self.asked = object()
        self._stir()

    def kill(self, why: str) -> None:
        """Kill everything inside and wait for its death. Raises ``SandboxError`` if it does not die."""
        self.why = self.why or why
        with self._begin_lock:
            if self._thread.ident is None:
                self._over.set()  # it never started and never will
        self._kill_now()
        if not self._over.wait(DEATH_SECONDS):
            raise SandboxError("a bwrap sandbox did not die")

    def _kill_now(self) -> None:
        with self._child_lock, suppress(OSError):
            if self._child >= 0:
                signal.pidfd_send_signal(self._child, signal.SIGKILL)
        if self._process is not None and self._process.returncode is None:
            # Kill both halves: while it starts, the second one does not yet die with the first.
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, data: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(BrokenPipeError):
            write_all(self._process.stdin.fileno(), data)

    # The thread

    def _live(self) -> None:
        fault = ""
        try:
            self._start()
            self._read()
        except Exception as error:
            fault = str(error)
        finally:
            self._bury(fault)

    def _start(self) -> None:
        self._tree.clear_way()
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as info:
            try:
                command = argv(self._bwrap, self._tree.root, self._placed, self._init, writer)
                with self._log.open("wb") as log:
                    self._process = subprocess.Popen(
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, pass_fds=[writer],
                        bufsize=0, start_new_session=True, env={}, **as_user(command, self._user),
                    )  # fmt: skip
            finally:
                os.close(writer)
            text = info.read()
        if not text:
            self._process.wait()
            raise SandboxError(self._log.read_text(errors="replace").strip()[-500:] or "bwrap printed nothing")
        self._first = json.loads(text)["child-pid"]
        self._child = os.pidfd_open(self._first)
        if self.why:  # killed before there was anything to kill
            self._kill_now()

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        buffer = bytearray()
        end = self._process.stdout.fileno()
        while data := os.read(end, 1 << 20):
            buffer += data
            while (taken := frames.take_frame(buffer)) is not None:
                header, payload = json.loads(taken[0]), taken[1]
                if header.get("ready"):
                    self._ready.set_result(None)
                    continue
                if header.get("lost"):
                    self.why = self.why or "its commands could not be controlled any more"
                    return
                if header["survived"]:
                    self.why = self.why or "a command's processes survived its deadline"
                # Without the lock: a writer holds it until its request is read, which would never happen while the
                # first process inside waits for this thread to read replies.
                future = self._waiting.pop(header["id"], None)
                if future is not None:
                    _answer(future, (header, payload))

    def _bury(self, fault: str) -> None:
        """Kill the rest, wait for its death, and answer all waiters, whatever happens. ``fault``: the thread's
        failure."""
        try:
            self._kill_now()
            if self._child >= 0:
                _wait_for(self._child)
                with self._child_lock:
                    os.close(self._child)
                    self._child = -1
            if self._process is not None:
                self._process.wait()  # no timeout, for which ``Popen`` would poll
                with self._lock:
                    for stream in (self._process.stdin, self._process.stdout):
                        if stream is not None:
                            stream.close()
        finally:
            if not self._ready.done() and self.why not in ("", _LATE):
                self._ready.set_result(None)  # it was killed as it started: dead like any other
            elif not self._ready.done():
                said = self._log.read_text(errors="replace").strip()[-500:] if self._log.exists() else ""
                told = fault or said or "it said nothing"
                self._ready.set_exception(SandboxError(f"a bwrap sandbox did not start: {told}"))
            self._over.set()
            self._fail()

    def _fail(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            _answer(future, None)


def _wait_for(place: int) -> None:
    """Wait until a pidfd's process has ended (``select`` does not accept descriptors above 1023)."""
    poll = select.poll()
    poll.register(place, select.POLLIN)
    poll.poll(DEATH_SECONDS * 1000)


def _answer(future: Future[Reply | None], reply: Reply | None) -> None:
    with suppress(InvalidStateError):  # the caller has given up
        future.set_result(reply)
