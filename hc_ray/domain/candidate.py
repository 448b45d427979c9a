"""Attempted end states of a workspace, and the one that is handed in."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from heapq import heappop, heappush
from typing import Any

from hc_ray.domain.value import Shown, Value

NO_TEXT = "(no text: "
"""How an entry of ``Candidate.files`` begins that says in words what lies at a path where that is no text."""


class Candidate(Value):
    """One attempt. Its files are the whole change against the state it was forked from."""

    id: str
    """``c<round>.<slot>``: the order in which decisions look at candidates."""
    round: int
    slot: int
    parent: str | None = None
    lineage: int = 0
    repairs: int = 0
    """How many repairs lie between this candidate and the root of its lineage."""
    seed: int
    temperature: float
    form: str
    plan: str
    files: dict[Shown, Shown] = {}
    """Path (relative to the workdir, or absolute) → text. Empty when the answer held no usable file. What a candidate
    with tools made that is no text (binary files, links, empty folders, removed paths) is told in words, so that equal
    files are equal candidates; what was run and handed in is the thing itself."""
    malformed: str | None = None
    """Why the answer gave no file; None when it did."""
    digest: str = ""
    """SHA-256 over the normal form of ``files``: equal digests are the same candidate."""
    duplicate_of: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    engine_seconds: float = 0.0
    finish_reason: str | None = None
    turns: int = 1
    """Answers of its lineage up to it."""

    @property
    def all_text(self) -> bool:
        """Whether ``files`` hold all that it is."""
        return not any(text.startswith(NO_TEXT) for text in self.files.values())


class Submission(Value):
    """What leaves a trial for the verifier. It holds no score and no self-test outcome."""

    id: str
    trial: str
    """The trial's full key."""
    task_digest: str
    tar: bytes
    """The difference to the task's image: a tar of changed paths (absolute, without the leading slash), with
    ``candidate.DELETED`` as its first member when paths were removed."""
    digest: str
    """SHA-256 of ``tar``."""
    living: str | None = None
    """Shared grading: the ticket of the sandbox in which the candidate still lives."""
    ended: str = ""
    """Of the reference solution: how its script ended."""

    @classmethod
    def of(cls, tar: bytes, **named: Any) -> "Submission":
        """A submission of this tar."""
        return cls(tar=tar, digest=sha256(tar).hexdigest(), **named)


DELETED = ".hc-ray-deleted.json"
"""Name of the tar member that lists removed absolute paths (a JSON list of strings)."""


def is_program(path: str, text: str) -> bool:
    """Whether a file of a candidate is written executable: a script that says who runs it, or a shell script."""
    return text.startswith("#!") or path.endswith((".sh", ".bash"))


def in_lines(told: Mapping[str, str], most: int) -> list[str]:
    """What differs, path → its line, in order: the workspace, then what lies elsewhere (full paths), of which only a
    quarter of ``most`` lines is told. Where that is too much, folders stand for what they hold, the fullest first."""
    inside = [path for path in told if not path.startswith("/")]
    outside = [path for path in told if path.startswith("/")]
    lines = []
    for top, paths, room in (("", inside, most), ("/", outside, most // 4)):
        for path, held in sorted(_folded(top, paths, room).items()):
            lines.append(told.get(path, f"{path} ({held:,} entries)"))
    return lines


def _folded(top: str, paths: Sequence[str], most: int) -> dict[str, int]:
    """Paths below a folder, and folders (with a slash at their end) that stand for several, with their number."""
    left = [(len(paths), top, paths)]
    kept: dict[str, int] = {}
    while left:
        count, folder, within = heappop(left)
        below: dict[str, list[str]] = defaultdict(list)
        for path in within:
            name, slash, _ = path[len(folder) :].partition("/")
            below[folder + name + slash].append(path)
        if folder != top and len(kept) + len(left) + len(below) > most:
            kept[folder] = count
            continue
        for path, held in below.items():
            if len(held) == 1:
                kept[held[0]] = 1
            else:
                heappush(left, (len(held), path, held))
    return kept
