"""System calls that a candidate's command does without: what reaches out of the sandbox by no file and no network
(vsock, the caller's keyrings), what has a large surface in the kernel and no use here, the limits of other processes,
and, where no cgroup counts it, memory that belongs to no process, and a crowd of sessions.

A BPF program by hand, since the runner brings no library for it. It refuses what it lists and lets the rest pass: the
backends' own walls stand behind it."""

import ctypes
import errno
import fcntl
import os
import struct

from hc_ray.sandboxes.inside import processes

MYPY = False
if MYPY:
    from collections.abc import Callable

_X86_64, _AARCH64, _I386 = 0xC000003E, 0xC00000B7, 0x40000003
_X32 = 0x40000000
"""Bit of the calls of a third ABI of x86-64, which nobody needs."""

_ANYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 444, 445, 446)
"""io_uring (setup, enter, register), open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, landlock
(create_ruleset, add_rule, restrict_self; a rule keeps a file on the disk that has no name and that nobody holds open):
the same number on every machine."""
_CLOSED: dict[int, tuple[int, ...]] = {
    # add_key request_key keyctl bpf perf_event_open userfaultfd syslog unshare setns mount umount2 pivot_root
    # open_by_handle_at kexec_load init_module finit_module
    _X86_64: (248, 249, 250, 321, 298, 323, 103, 272, 308, 165, 166, 155, 304, 246, 175, 313),
    _AARCH64: (217, 218, 219, 280, 241, 282, 116, 97, 268, 40, 39, 41, 265, 104, 105, 273),
    _I386: (286, 287, 288, 357, 336, 374, 103, 310, 346, 21, 52, 217, 342, 283, 128, 350),
}
_UNCOUNTED: dict[int, tuple[int, ...]] = {
    # memfd_create memfd_secret shmget msgget semget vmsplice (a pipe holds on to huge pages of which it has a byte)
    _X86_64: (319, 447, 29, 68, 64, 278),
    _AARCH64: (279, 447, 194, 186, 190, 75),
}
_SETSID = {_X86_64: 112, _AARCH64: 157}
_PRLIMIT = {_X86_64: 302, _AARCH64: 261, _I386: 340}
"""A process sets its own limits by number 0. Those of a sandbox's first process, whose user it may share, would end it:
it could open nothing more."""
_SOCKET: dict[int, tuple[int, ...]] = {_X86_64: (41, 53), _AARCH64: (198, 199), _I386: (359, 360)}
"""socket, socketpair"""
_FAMILIES = (0, 1, 2, 10, 16)
"""Unspecified, local, IPv4, IPv6, netlink: all bound to the network namespace. Others (vsock) are not."""
_FCNTL: dict[int, tuple[int, ...]] = {_X86_64: (72,), _AARCH64: (25,), _I386: (55, 221)}
_SETLEASE = 1024
"""Whoever opens a file that somebody has a lease on waits for him up to 45 s, or is refused: whoever takes a sandbox's
files from outside, too."""
_SOCKETCALL = 102
"""i386: sockets of any family behind a pointer that no filter can follow."""

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in ``struct seccomp_data``: the call, the architecture, the low halves of the first two arguments."""
_ALLOW, _ASK, _REFUSE, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP = {_X86_64: 317, _AARCH64: 277}
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
"""The last, since Linux 5.19: a signal does not interrupt a call that is being decided."""
_RECEIVE, _SEND, _REQUEST_BYTES, _CONTINUE = 0xC0502100, 0xC0182101, 80, 1


def program(*, counted: bool, asking: bool = False) -> bytes:
    """The filter as ``struct sock_filter`` after each other. ``counted``: a cgroup counts all memory of the sandbox.
    ``asking``: who wants a session of its own waits for ``decide``. What is called as on another machine ends its
    process (``SIGSYS``: "Bad system call"), but that images of Docker's may hold programs for i386."""
    own = _own_machine()
    lines: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _ARCH)]
    for arch in (own, _I386) if counted and own == _X86_64 else (own,):
        section = _section(arch, counted)
        if asking:
            section[1:1] = [(_EQUAL, 0, 1, _SETSID[arch]), (_RETURN, 0, 0, _ASK)]
        lines += [(_EQUAL, 0, len(section), arch), *section]
    lines.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _own_machine() -> int:
    machine = os.uname().machine
    try:
        return {"x86_64": _X86_64, "aarch64": _AARCH64}[machine]
    except KeyError:
        raise OSError(f"there is no filter of system calls for {machine}, only for x86-64 and arm64") from None


def _section(arch: int, counted: bool) -> list[tuple[int, int, int, int]]:
    """What holds on one architecture; at most 255 lines, which is how far a jump goes."""
    missing, refused = _REFUSE | errno.ENOSYS, _REFUSE | errno.EPERM
    lines = [(_LOAD, 0, 0, _NUMBER)]
    if arch == _X86_64:
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, missing)]
    for number in _ANYWHERE + (() if counted else _UNCOUNTED[arch]):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, missing)]
    for number in _CLOSED[arch] + ((_SOCKETCALL,) if arch == _I386 else ()):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refused)]
    lines += [(_EQUAL, 0, 4, _PRLIMIT[arch]), (_LOAD, 0, 0, _FIRST), (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW)]
    lines.append((_RETURN, 0, 0, refused))
    for number in _FCNTL[arch]:
        lines += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, _SECOND), (_EQUAL, 1, 0, _SETLEASE), (_RETURN, 0, 0, _ALLOW)]
        lines.append((_RETURN, 0, 0, refused))
    for number in _SOCKET[arch]:
        known = [(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)]
        check = [(_LOAD, 0, 0, _FIRST), *known, (_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT)]
        lines += [(_EQUAL, 0, len(check) + 1, number), *check, (_RETURN, 0, 0, _ALLOW)]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]


def install(program_: bytes) -> bool:
    """Put the filter on this process and all that it will start, for good; False where the kernel has no filters."""
    return _installed(program_, 0) == 0


def install_asking(program_: bytes) -> int:
    """``install`` for a program that asks: a descriptor that can be read when somebody waits for ``decide``. This
    process must not ask itself. -1, and nothing installed, where a filter that stands around this machine asks
    already."""
    return _installed(program_, _NEW_LISTENER | (_WAIT_KILLABLE if processes.kernel_release() >= (5, 19) else 0))


def _installed(program_: bytes, flags: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(program_) // 8, program_)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return -1
    return int(libc.syscall(_SECCOMP[_own_machine()], _SET_MODE_FILTER, flags, ctypes.byref(given)))


def decide(listener: int, allowed: "Callable[[int], bool]") -> None:
    """Answer one process that waits for its session (``SECCOMP_RET_USER_NOTIF``): the call goes on where ``allowed``
    says so of its number, or else fails with EPERM."""
    request = bytearray(_REQUEST_BYTES)
    try:
        fcntl.ioctl(listener, _RECEIVE, request)
    except (FileNotFoundError, InterruptedError):  # it has died, or can be read once more
        return
    number, process = struct.unpack_from("=QI", request)
    verdict = (0, _CONTINUE) if allowed(process) else (-errno.EPERM, 0)
    while True:
        try:
            fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, *verdict))
        except InterruptedError:  # by a signal while another process was asking: this one still waits
            continue
        except FileNotFoundError:  # it has died, or was interrupted and asks again
            return
        return
