"""The state of a workspace: its difference to the task's image, as bytes to submit and as text to compare."""

import asyncio
import hashlib
import posixpath
from collections.abc import Sequence

from hc_ray.domain.candidate import NO_TEXT, is_program
from hc_ray.domain.filetree import Member, pack, unpack
from hc_ray.domain.ports import Difference, Sandbox
from hc_ray.domain.value import Shown, Value

_USUAL = frozenset({0o644, 0o664, 0o755, 0o775})
"""Usual permissions, which tell nothing but whether a file is executable."""
RIGHTS = " (rights)"
"""Suffix of the key under which ``State.files`` describes a text file's permissions and owner."""


class State(Value):
    """The current state of a workspace."""

    difference: Difference
    """Without Python's caches, which mean nothing and differ every time."""
    files: dict[Shown, Shown] = {}
    """Differences by path (relative if below the workdir): the content of text files, and descriptions (``NO_TEXT``) of
    everything else: binary files, links, empty folders, removed paths, permissions, owners."""


async def state_of(sandbox: Sandbox) -> State:
    """The current state of a sandbox's workspace. Raises ``ValueError`` if it is too large for a submission."""
    return await asyncio.to_thread(_state, (await sandbox.difference()).tar, sandbox.workdir.rstrip("/") + "/")


def _state(tar: bytes, folder: str) -> State:
    change = unpack(tar)
    members = [one for one in change.members if "__pycache__" not in one.path.split("/")]
    texts, odd = _told(members, change.deleted)
    files = {path.removeprefix(folder): told for path, told in {**texts, **odd}.items()}
    return State(difference=pack(members, change.deleted), files=files)


def _told(members: Sequence[Member], deleted: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The text files of a difference, and descriptions of everything else."""
    texts: dict[str, str] = {}
    odd = dict.fromkeys(deleted, f"{NO_TEXT}removed)")
    filled = {"/"}
    for one in members:
        above = posixpath.dirname(one.path)
        while above not in filled:
            filled.add(above)
            above = posixpath.dirname(above)
    # If everything belongs to one user, that is the working user.
    several = len({one.owner for one in members if one.path not in filled}) > 1
    for one in members:
        owner = f", owner {one.owner[0]}:{one.owner[1]}" if several and any(one.owner) else ""
        if one.kind == "link":
            odd[one.path] = f"{NO_TEXT}a link to {one.target}{owner})"
        elif one.kind == "folder":
            if one.path not in filled or one.mode & 0o7777 not in {*_USUAL, 0o700, 0o1777} or owner:
                odd[one.path] = f"{NO_TEXT}a folder, rights {one.mode:o}{owner})"
        elif (text := _text(one)) is None:
            rights = ", may be run" if one.mode & 0o111 else ""
            digest = hashlib.sha256(one.data).hexdigest()
            odd[one.path] = f"{NO_TEXT}a file of {len(one.data)} bytes, SHA-256 {digest}{rights}{_rights(one)}{owner})"
        else:
            texts[one.path] = text
            rights = "may be run" if one.mode & 0o111 and not is_program(one.path, text) else ""
            if said := (rights + _rights(one) + owner).removeprefix(", "):
                odd[f"{one.path}{RIGHTS}"] = f"{NO_TEXT}{said})"
    return texts, dict(sorted(odd.items()))


def _rights(one: Member) -> str:
    return "" if one.mode & 0o7777 in _USUAL else f", rights {one.mode & 0o7777:o}"


def _text(one: Member) -> str | None:
    """A file's text; None if it is not text, could be mistaken for a description, or has a name that is not text."""
    try:
        text = one.data.decode()
        one.path.encode()
    except UnicodeError:
        return None
    return None if "\0" in text or text.startswith(NO_TEXT) else text
