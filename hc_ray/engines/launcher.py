"""The parent of one inference server, run as a file: ``launcher.py COMMAND …``. It shares a process group with the
server and all that the server starts, and none of them outlives the process that started the launcher.

It ends them when its stdin closes, when its own parent is gone, or when the server ends. The launcher cannot use a
parent-death signal: the kernel ties that to the *thread* that started the child, and an actor's worker thread may end
long before the actor does. The launcher has a single thread, so it can set one for the server: a Ray worker whose
raylet died kills its children, that is, only the launcher."""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

LOOK_SECONDS = 0.2
GRACE_SECONDS = 4.0
"""Seconds for a server to exit by itself, and for a client to stop its container."""


ENDED = "the server ended with"


def main(command: list[str]) -> None:
    parent = os.getppid()
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_parent)
    except OSError as fault:
        sys.exit(f"error: {command[0]}: {fault.strerror}")
    while server.poll() is None and os.getppid() == parent:
        if select.select([0], [], [], LOOK_SECONDS)[0] and not os.read(0, 1):
            break
    if server.returncode is not None:
        how = f"exit code {server.returncode}" if server.returncode >= 0 else f"signal {-server.returncode}"
        print(f"{ENDED} {how}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    while server.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGKILL)  # including itself


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    main(sys.argv[1:])
