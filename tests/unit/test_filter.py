"""The filter of system calls, run as the kernel would: what is refused, what passes, and that no jump leaves it."""

import errno
import struct

import pytest

from hc_ray.sandboxes.inside import filter

ALLOWED = 0x7FFF0000
X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003


def verdict(arch, number, first=0, *, counted=False):
    """What the program answers to one call: 0 where it passes, else the error number."""
    text = filter.program(counted=counted)
    lines = [struct.unpack_from("=HBBI", text, at) for at in range(0, len(text), 8)]
    seen = {0: number, 4: arch, 16: first}
    at, held = 0, 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x20:
            held = seen[value]
        elif code == 0x06:
            return 0 if value == ALLOWED else value & 0xFFFF
        else:
            at += yes if (held == value if code == 0x15 else held >= value) else no


@pytest.mark.parametrize(("arch", "keyctl", "read", "socket", "memfd"), [
    (X86_64, 250, 0, 41, 319), (AARCH64, 219, 63, 198, 279), (I386, 288, 3, 359, 356),
])  # fmt: skip
def test_keyrings_uring_strange_sockets_and_uncounted_memory_are_refused_everywhere(arch, keyctl, read, socket, memfd):
    assert verdict(arch, keyctl) == errno.EPERM and verdict(arch, 425) == errno.ENOSYS and verdict(arch, read) == 0
    assert [verdict(arch, socket, family) for family in (0, 1, 2, 10, 16)] == [0] * 5
    assert {verdict(arch, socket, family) for family in (3, 17, 38, 40, 44)} == {errno.EAFNOSUPPORT}
    assert verdict(arch, memfd) == errno.ENOSYS and verdict(arch, memfd, counted=True) == 0


def test_other_ways_into_the_kernel_are_no_way_around():
    assert verdict(X86_64, 0x40000000 | 41, 40) == errno.ENOSYS and verdict(I386, 102) == errno.EPERM
    assert verdict(0xDEADBEEF, 250) == 0, "a machine that is not known has no list"


def test_every_line_ends_in_a_return_and_every_jump_stays_inside():
    for counted in (True, False):
        text = filter.program(counted=counted)
        lines = [struct.unpack_from("=HBBI", text, at) for at in range(0, len(text), 8)]
        assert lines[-1][0] == 0x06 and len(lines) < 4096
        jumps = [at + 1 + max(yes, no) for at, (code, yes, no, _) in enumerate(lines) if code in (0x15, 0x35)]
        assert jumps and max(jumps) < len(lines)
