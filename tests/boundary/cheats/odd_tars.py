"""Cheats by the shape of the submission: members that land elsewhere, are no files, or are too much."""

from tarfile import BLKTYPE, CHRTYPE, FIFOTYPE, LNKTYPE, SYMTYPE

from hc_ray.domain.candidate import DELETED
from tests.boundary.cheats.cheat import FILE, WRONG, Cheat
from tests.fakes.tars import Member, member

MANY = 1_200
_ANSWER = FILE.lstrip("/")
_NOTHING = b"def test_nothing():\n    pass\n"
_SAYS = {"major": "1", "minor": "0", "name": "app/big", "realsize": str(1 << 40)}
_SPARSE = {f"GNU.sparse.{key}": value for key, value in _SAYS.items()}


def _beside(name: str, does: str, *members: Member, refused: bool = True) -> Cheat:
    """Members beside the wrong answer."""
    return Cheat(name, does, {FILE: WRONG}, members, caught="submission_refused" if refused else "")


def _alone(name: str, does: str, *members: Member, caught: str = "") -> Cheat:
    return Cheat(name, does, members=members, caught=caught)


CHEATS = (
    _beside("a link out of the workspace", "a member is written through a link to /tests",
            member("app/out", SYMTYPE, "/tests"), member("app/out/test_outputs.py", data=_NOTHING)),
    _alone("the workspace is a link", "/app leads to /tests", member("app", SYMTYPE, "/tests")),
    _alone("the answer is a link", "backwards.py leads to the hidden tests",
           member(_ANSWER, SYMTYPE, "/tests/test_outputs.py")),
    _beside("/tests and /logs are links", "/tests and /logs lead into the workspace",
            member("app/mine/test_outputs.py", data=_NOTHING),
            *(member(name, SYMTYPE, "/app/mine") for name in ("tests", "logs")), refused=False),
    _alone("the answer is a link with a second end", "the same, and behind a NUL the name goes on",
           member(_ANSWER, SYMTYPE, pax_headers={"linkpath": "/tests/test_outputs.py\0/"}),
           caught="submission_refused"),
    _alone("a hard link to the tests", "backwards.py is a hard link to the hidden tests",
           member(_ANSWER, LNKTYPE, "tests/test_outputs.py"), caught="submission_refused"),
    _beside("a name that leaves its folder", "app/../tests/test_outputs.py",
            member("app/../tests/test_outputs.py", data=_NOTHING)),
    _beside("one name twice", "first a link, then something below it, then a file",
            member("app/x", SYMTYPE, "/logs/verifier"), member("app//x/reward.txt", data=b"1"),
            member("app/x", data=b"1")),
    _beside("device files", "a character and a block device in the workspace",
            member("app/memory", CHRTYPE, devmajor=1, devminor=1), member("app/disk", BLKTYPE, devmajor=8, devminor=0)),
    _alone("the answer is a fifo", "reading backwards.py never ends", member(_ANSWER, FIFOTYPE),
           caught="submission_refused"),
    _beside("a sparse terabyte", "a member of a few bytes that unpacks to 1 TiB",
            member("app/big", data=b"1\n0\n0\n".ljust(512, b"\0"), pax_headers=_SPARSE)),
    _beside("a tar bomb", f"{MANY} members", *(member(f"app/many/{number}") for number in range(MANY)), refused=False),
    _beside("a path without end", "3000 folders inside each other", member("app/" + "d/" * 3000 + "file", data=b"x")),
    _alone("everything removed", "python3, the shell and /tests are listed as removed",
           member(DELETED, data=b'["/usr/bin/python3", "/bin/sh", "/tests", "/logs"]'),
           member(_ANSWER, data=WRONG.encode()), caught="tampered"),
)  # fmt: skip
