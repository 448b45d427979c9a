"""Cheats by the shape of the submission: members that land elsewhere, are no files, or are too much."""

import tarfile

from tests.boundary.cheats.cheat import FILE, WRONG, Cheat, add

MANY = 1_200
_REFUSED = "submission_refused"


def _links(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "/app/out", type=tarfile.SYMTYPE, linkname="/tests")
    add(tar, "/app/out/test_outputs.py", b"def test_nothing():\n    pass\n")


def _workdir_is_a_link(tar: tarfile.TarFile) -> None:
    add(tar, "/app", type=tarfile.SYMTYPE, linkname="/tests")


def _answer_is_a_link(tar: tarfile.TarFile) -> None:
    add(tar, FILE, type=tarfile.SYMTYPE, linkname="/tests/test_outputs.py")


def _tests_are_a_link(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "/app/mine/test_outputs.py", b"def test_nothing():\n    pass\n")
    add(tar, "/tests", type=tarfile.SYMTYPE, linkname="/app/mine")
    add(tar, "/logs", type=tarfile.SYMTYPE, linkname="/app/mine")


def _hard_link(tar: tarfile.TarFile) -> None:
    add(tar, FILE, type=tarfile.LNKTYPE, linkname="tests/test_outputs.py")


def _leaves(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "app/../tests/test_outputs.py", b"def test_nothing():\n    pass\n")


def _twice(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "/app/x", type=tarfile.SYMTYPE, linkname="/logs/verifier")
    add(tar, "/app//x/reward.txt", b"1")
    add(tar, "/app/x", b"1")


def _device(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "/app/memory", type=tarfile.CHRTYPE, devmajor=1, devminor=1)
    add(tar, "/app/disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0)


def _fifo(tar: tarfile.TarFile) -> None:
    add(tar, FILE, type=tarfile.FIFOTYPE)


def _sparse(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    size = str(1 << 40)
    sparse = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "app/big",
        "GNU.sparse.realsize": size,
    }
    add(tar, "/app/big", b"1\n0\n0\n".ljust(512, b"\0"), pax_headers=sparse)


def _many(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    for number in range(MANY):
        add(tar, f"/app/many/{number}")


def _deep(tar: tarfile.TarFile) -> None:
    add(tar, FILE, WRONG.encode())
    add(tar, "/app/" + "d/" * 3000 + "file", b"x")


def _removes_everything(tar: tarfile.TarFile) -> None:
    add(tar, ".hc-ray-deleted.json", b'["/usr/bin/python3", "/bin/sh", "/tests", "/logs"]')
    add(tar, FILE, WRONG.encode())


CHEATS = (
    Cheat(
        "a link out of the workspace", "a member is written through a link to /tests", members=_links, caught=_REFUSED
    ),
    Cheat("the workspace is a link", "/app leads to /tests", members=_workdir_is_a_link),
    Cheat("the answer is a link", "backwards.py leads to the hidden tests", members=_answer_is_a_link),
    Cheat("/tests and /logs are links", "/tests and /logs lead into the workspace", members=_tests_are_a_link),
    Cheat(
        "a hard link to the tests",
        "backwards.py is a hard link to the hidden tests",
        members=_hard_link,
        caught=_REFUSED,
    ),
    Cheat("a name that leaves its folder", "app/../tests/test_outputs.py", members=_leaves, caught=_REFUSED),
    Cheat("one name twice", "first a link, then something below it, then a file", members=_twice, caught=_REFUSED),
    Cheat("device files", "a character and a block device in the workspace", members=_device, caught=_REFUSED),
    Cheat("the answer is a fifo", "reading backwards.py never ends", members=_fifo, caught=_REFUSED),
    Cheat("a sparse terabyte", "a member of a few bytes that unpacks to 1 TiB", members=_sparse, caught=_REFUSED),
    Cheat("a tar bomb", f"{MANY} members", members=_many),
    Cheat("a path without end", "3000 folders inside each other", members=_deep, caught=_REFUSED),
    Cheat(
        "everything removed",
        "python3, the shell and /tests are listed as removed",
        members=_removes_everything,
        caught="tampered",
    ),
)
