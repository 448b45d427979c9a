"""The first process of a container. It lives while its owner does, and with it the container.

Its standard input is a connection that only the owner holds: the end of it means that the owner is dead, and a silence
longer than the lease that it is cut off or frozen. Nothing inside can kill, stop or trace this process (it is number 1
of its namespace, and not dumpable); orphans that fall to it are collected by the kernel."""

import os
import select
import stat
import sys
import time

from hc_ray.sandboxes.inside import processes

MYPY = False
if MYPY:
    import signal
else:
    import _signal as signal

PR_SET_NAME = 15
HOSTS, LOCALHOST = "/etc/hosts", b"127.0.0.1\tlocalhost\n::1\tlocalhost\n"
READY = b"hc-kept"
"""What this process is called from the moment in which nothing inside can touch it."""


def main() -> None:
    """Wait for the owner's end, at most as many seconds after its last word as the argument says."""
    lease = float(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    name_localhost()
    # Else root inside could trace this process and freeze it, or hold its input.
    processes.hide()
    processes.prctl(PR_SET_NAME, READY)
    while select.select([0], [], [], lease)[0] and os.read(0, 4096):
        pass


def name_localhost() -> None:
    """Docker writes the names of hosts for a network only: without one, programs would not find ``localhost``."""
    try:
        found = os.lstat(HOSTS)
        if found.st_size or not stat.S_ISREG(found.st_mode):
            return
        file = os.open(HOSTS, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        os.write(file, LOCALHOST)
        os.close(file)
    except OSError:  # the image has none, or one of its own kind
        return


def wait_until_ready() -> None:
    """For the helper of a command: a container runs as soon as this process begins, before it has hidden itself."""
    while True:
        with open("/proc/1/comm", "rb") as name:
            if name.read().strip() == READY:
                return
        time.sleep(0.001)
