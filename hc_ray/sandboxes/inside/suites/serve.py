"""Runs under the *task's own* interpreter, one process a suite: it forks one child a job (``call``), since starting an
interpreter a test is most of what a test costs. Nothing of a candidate is ever loaded here, so that each child begins
with the same clean state. Standard library only, Python 3.6 syntax.

    python3 hc_serve.py DESCRIPTOR

Jobs come over an inherited Unix socket: a line of JSON with two descriptors, of the answer and of the standard error.
The answer to each is a line with how the child ended: ``{"code": 0}``, null past its deadline.
"""
# An old interpreter may run this file: no strict zip, no assignment expressions.

import array
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import time

from hc_ray.sandboxes.inside.suites import call

MYPY = False
if MYPY:
    from typing import Any

PART = 1 << 16


def received(control: "socket.socket") -> "tuple[dict[str, Any], list[int]] | None":
    """The next job and its descriptors; None where the driver is gone."""
    told, passed = b"", array.array("i")
    while not told.endswith(b"\n"):
        part, notes, _, _ = control.recvmsg(PART, socket.CMSG_SPACE(2 * passed.itemsize))
        for level, kind, data in notes:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed.frombytes(data[: len(data) - len(data) % passed.itemsize])
        if not part:
            return None
        told += part
    return json.loads(told.decode()), list(passed)


def limited(limits: "dict[str, int]") -> None:
    """The limits of one test, as ``hc_child`` sets them."""
    for name, value in limits.items():
        soft, hard = (value, value + 1) if name == "CPU" else (value, value)
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (soft, hard))


def child(control: "socket.socket", request: "dict[str, Any]", answer: int, err: int) -> None:
    """The forked child: a session of its own, limits, no way back to the driver but the answer. Never returns."""
    try:
        os.setsid()
        control.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.chdir(request["cwd"])
        os.dup2(err, 2)
        os.close(err)
        limited(request["limits"])
        call.answer(request["job"], answer)
    finally:
        os._exit(1)


def ended(pid: int, seconds: float) -> "int | None":
    """How the child ended; None past its deadline. Its whole session is killed before it is buried."""
    until = time.monotonic() + seconds
    late = False
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = until - time.monotonic()
        if left <= 0:
            late = True
            break
        signal.sigtimedwait([signal.SIGCHLD], left)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        told = received(control)
        if told is None:
            return
        request, (answer, err) = told
        pid = os.fork()
        if pid == 0:
            child(control, request, answer, err)
        os.close(answer)
        os.close(err)
        control.sendall(json.dumps({"code": ended(pid, request["seconds"])}).encode() + b"\n")


if __name__ == "__main__":
    main()
