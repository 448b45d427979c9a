"""The filter of system calls, run as the kernel would: what is refused, what passes, and that no jump leaves it."""

import errno
import os
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hc_ray.sandboxes.inside import filter

ALLOWED, ASKED, KILLED = 0x7FFF0000, 0x7FC00000, 0x80000000
X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028


def program(machine="x86_64", **given):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine, release="6.1.0"))
        return filter.program(**given)


def verdict(arch, number, first=0, second=0, *, machine=None, counted=False, asking=False):
    """What the program of a machine (None: the call's own) answers to one call: 0 where it passes, ``ASKED`` where it
    waits, ``KILLED`` where it ends its process, else the error number."""
    machine = machine or {AARCH64: "aarch64"}.get(arch, "x86_64")
    text = program(machine, counted=counted, asking=asking)
    lines = [struct.unpack_from("=HBBI", text, at) for at in range(0, len(text), 8)]
    seen = {0: number, 4: arch, 16: first, 24: second}
    at, held = 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x20:
            held = seen[value]
        elif code == 0x06:
            return {ALLOWED: 0, ASKED: ASKED, KILLED: KILLED}.get(value, value & 0xFFFF)
        else:
            at += yes if (held == value if code == 0x15 else held >= value) else no


CALLS = {
    X86_64: {"keyctl": 250, "read": 0, "socket": 41, "prlimit": 302, "fcntl": [72], "memfd": 319, "setsid": 112},
    AARCH64: {"keyctl": 219, "read": 63, "socket": 198, "prlimit": 261, "fcntl": [25], "memfd": 279, "setsid": 157},
    I386: {"keyctl": 288, "read": 3, "socket": 359, "prlimit": 340, "fcntl": [55, 221]},
}  # fmt: skip
on_all = pytest.mark.parametrize("arch", CALLS, ids=("x86_64", "aarch64", "i386"))
on_our_own = pytest.mark.parametrize("arch", (X86_64, AARCH64), ids=("x86_64", "aarch64"))


@on_all
def test_keyrings_uring_strange_sockets_limits_of_others_and_leases_on_files_are_refused_everywhere(arch):
    def said(*call):
        return verdict(arch, *call, counted=arch == I386)

    at = CALLS[arch]
    assert said(at["keyctl"]) == errno.EPERM and said(425) == errno.ENOSYS and said(at["read"]) == 0
    assert [said(at["socket"], family) for family in (0, 1, 2, 10, 16)] == [0] * 5
    assert {said(at["socket"], family) for family in (3, 17, 38, 40, 44)} == {errno.EAFNOSUPPORT}
    assert [said(at["prlimit"], process) for process in (0, 1, 77)] == [0, errno.EPERM, errno.EPERM], "its own may go"
    for fcntl in at["fcntl"]:
        assert [said(fcntl, 3, command) for command in (1, 1024, 1025, 1030)] == [0, errno.EPERM, 0, 0]


@on_our_own
def test_memory_of_no_process_is_refused_where_nobody_counts_it(arch):
    memfd = CALLS[arch]["memfd"]
    assert verdict(arch, memfd) == errno.ENOSYS and verdict(arch, memfd, counted=True) == 0


def test_other_ways_into_the_kernel_are_no_way_around():
    for given in ({"counted": True}, {"counted": False}, {"counted": False, "asking": True}):
        assert {verdict(X86_64, 0x40000000 | number, 40, **given) for number in (0, 41, 112)} == {errno.ENOSYS}
    assert verdict(I386, 102, counted=True) == errno.EPERM


@pytest.mark.parametrize(("machine", "others"), [("x86_64", (AARCH64, ARM)), ("aarch64", (X86_64, I386, ARM))])
def test_a_program_for_another_machine_is_ended_and_one_for_i386_runs_in_docker_alone(machine, others):
    for arch in (*others, 0xDEADBEEF):
        assert {verdict(arch, 3, machine=machine, counted=counted) for counted in (True, False)} == {KILLED}
    for asking in (True, False):
        assert verdict(I386, 3, machine=machine, asking=asking) == KILLED
    with pytest.raises(OSError, match="no filter of system calls for riscv64"):
        program("riscv64", counted=True)


@on_our_own
def test_a_session_is_asked_for_and_nothing_else_changes(arch):
    setsid, keyctl = CALLS[arch]["setsid"], CALLS[arch]["keyctl"]
    assert (verdict(arch, setsid), verdict(arch, setsid, asking=True)) == (0, ASKED)
    assert verdict(arch, keyctl, asking=True) == errno.EPERM and verdict(arch, setsid + 1, asking=True) == 0


ASKS = """
import os, select, signal, sys
from hc_ray.sandboxes.inside import filter
program = filter.program(counted=False, asking=True)
listener = filter.install_asking(program)
print(filter.install_asking(program))
for answer in True, False:
    if not (child := os.fork()):
        try: os.setsid()
        except PermissionError: os._exit(1)
        os._exit(0)
    filter.decide(listener, lambda process: answer and process == child)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
if not (child := os.fork()):
    os.setsid()
waits = select.poll()
waits.register(listener)
waits.poll()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
filter.decide(listener, print)  # nobody asks any more: the kernel says so, and lets nobody wait for the next one
print("over")
"""


def test_who_asks_gets_what_is_decided_only_one_filter_asks_and_who_died_before_he_was_heard_holds_nobody_up():
    told = subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, timeout=30)
    assert told.stdout.split() == ["-1", "0", "1", "over"], told.stderr


def test_an_answer_that_a_signal_interrupts_is_sent_again_and_who_has_died_meanwhile_is_passed_over(monkeypatch):
    ends = [None, InterruptedError, InterruptedError, None]

    def ioctl(listener, call, data):
        if end := ends.pop(0):
            raise end

    monkeypatch.setattr(filter.fcntl, "ioctl", ioctl)
    filter.decide(3, lambda process: True)
    assert ends == []
    for ends in ([InterruptedError], [None, FileNotFoundError]):
        filter.decide(3, lambda process: True)
        assert ends == []
