"""Candidates (attempted end states of a workspace), and the submission."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from heapq import heappop, heappush
from typing import Any

from hc_ray.domain.value import Shown, Value

NO_TEXT = "(no text: "
"""Prefix of an entry of ``Candidate.files`` that describes something other than a text file."""


class Candidate(Value):
    """One attempt. Its files are all changes to the state that it was forked from."""

    id: str
    """``c<round>.<slot>``: the order in which decisions look at candidates."""
    round: int
    slot: int
    parent: str | None = None
    lineage: int = 0
    repairs: int = 0
    """Number of repairs between the root of its lineage and this candidate."""
    seed: int
    temperature: float
    form: str
    plan: str
    files: dict[Shown, Shown] = {}
    """Path (relative to the workdir, or absolute) → text. Empty if the answer had no usable file. Results that are not
    text (binary files, links, empty folders, removed paths) are described in words, so that equal files mean equal
    candidates; tests and submissions use the real ones."""
    malformed: str | None = None
    """Why the answer has no file; None if it has."""
    digest: str = ""
    """SHA-256 over the normalised ``files``: equal digests mean equal candidates."""
    duplicate_of: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    engine_seconds: float = 0.0
    finish_reason: str | None = None
    turns: int = 1
    """Answers of its lineage up to this candidate."""

    @property
    def all_text(self) -> bool:
        """Whether ``files`` are all text, and thus the whole candidate."""
        return not any(text.startswith(NO_TEXT) for text in self.files.values())


class Submission(Value):
    """What a trial hands to the verifier, without any score or self-test outcome."""

    id: str
    trial: str
    """The trial's full key."""
    task_digest: str
    tar: bytes
    """The difference to the task's image: a tar of changed paths (absolute, without the leading slash), whose first
    member is ``candidate.DELETED`` if paths were removed."""
    digest: str
    """SHA-256 of ``tar``."""
    living: str | None = None
    """Shared grading: the ticket of the candidate's live sandbox."""
    ended: str = ""
    """For the reference solution: how its script ended."""

    @classmethod
    def of(cls, tar: bytes, **named: Any) -> "Submission":
        """A submission with this tar and its digest."""
        return cls(tar=tar, digest=sha256(tar).hexdigest(), **named)


DELETED = ".hc-ray-deleted.json"
"""Name of the tar member that lists removed absolute paths (a JSON list of strings)."""


def is_program(path: str, text: str) -> bool:
    """Whether a candidate's file becomes executable: a script with a shebang line, or a shell script."""
    return text.startswith("#!") or path.endswith((".sh", ".bash"))


def in_lines(told: Mapping[str, str], most: int) -> list[str]:
    """Format differences (path → line): first the workspace, then other places (full paths), which get at most a
    quarter of ``most`` lines. If there are too many, folders replace their content, the fullest first."""
    inside = [path for path in told if not path.startswith("/")]
    outside = [path for path in told if path.startswith("/")]
    lines = []
    for top, paths, room in (("", inside, most), ("/", outside, most // 4)):
        for path, held in sorted(_folded(top, paths, room).items()):
            lines.append(told.get(path, f"{path} ({held:,} entries)"))
    return lines


def _folded(top: str, paths: Sequence[str], most: int) -> dict[str, int]:
    """Path → number of entries: single paths below a folder, and folders (ending in a slash) that replace several."""
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
