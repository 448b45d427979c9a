"""Trees of files inside a task folder: walked, hashed and copied without ever leaving the folder."""

import hashlib
import os
import shutil
from pathlib import Path

from hc_ray.domain.errors import DatasetError
from hc_ray.domain.value import Value

SHARED_TESTS = "shared-tests"
"""A folder beside the tasks of a dataset: files that several tasks have in their tests/, where each links to them."""
_LEFTOVERS = frozenset({"__pycache__", ".pytest_cache", ".DS_Store"})
"""Leftovers of running or inspecting a task in its folder, which belong to no task and no wheel."""


class Entry(Value):
    """One file or symbolic link of a tree; folders are implicit."""

    path: str
    """Relative to the tree's root, with ``/``."""
    target: str | None = None
    """A symbolic link's target, as written; None for a file."""
    executable: bool = False
    sha256: str = ""
    """SHA-256 of a file's content; empty for a link."""


def entries(root: Path, *, task: Path, links: bool) -> tuple[Entry, ...]:
    """Every file below ``root`` (none where it does not exist), sorted and hashed.

    ``links``: symbolic links are entries of their own and may point anywhere inside ``root``; without it, a link to
    a file anywhere inside the task folder, or in ``shared-tests/`` beside it, stands for that file. Raises
    ``DatasetError`` for links that lead outside, links to folders (without ``links``), devices, sockets and names that
    are no UTF-8."""
    if not os.path.lexists(root):
        return ()
    if root.is_symlink() or not root.is_dir():
        raise DatasetError(f"{root.name} is not a folder")
    place = Path(os.path.realpath(root if links else task))
    fences = (place,) if links else (place, place.parent / SHARED_TESTS)
    found: dict[str, Path] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFTOVERS]
        for name in [*files, *folders]:
            if name in _LEFTOVERS or name.endswith(".pyc"):
                continue
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            try:
                relative.encode()
            except UnicodeEncodeError:
                raise DatasetError(f"{root.name}: a file name is not valid UTF-8: {relative!r}") from None
            if path.is_symlink():
                _check_link(path, f"{root.name}/{relative}", fences, links)
            elif name in folders:
                continue
            elif not path.is_file():
                raise DatasetError(f"{root.name}/{relative} is not a regular file")
            found[relative] = path
    return tuple(_entry(relative, path, links) for relative, path in sorted(found.items()))


def _entry(relative: str, path: Path, links: bool) -> Entry:
    if links and path.is_symlink():
        return Entry(path=relative, target=str(path.readlink()))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Entry(path=relative, executable=bool(path.stat().st_mode & 0o100), sha256=digest)


def _check_link(path: Path, shown: str, fences: tuple[Path, ...], links: bool) -> None:
    target = Path(os.path.realpath(path))
    if not any(target.is_relative_to(fence) for fence in fences):
        left = "its folder" if links else f"the task folder (and does not lead to {SHARED_TESTS}/ beside it)"
        raise DatasetError(f"{shown} is a link that points outside {left}")
    if links and path.readlink().is_absolute():
        raise DatasetError(f"{shown} is a link with an absolute target")
    if not links and not target.is_file():
        raise DatasetError(f"{shown} is a link that does not point to a file")


def copy_tree(root: Path, destination: Path, tree: tuple[Entry, ...], *, folder_mode: int, mask: int) -> None:
    """Copy the listed entries of ``root`` below ``destination`` (made even when nothing is listed). Modes are those of
    a fresh checkout (0644, or 0755 where executable) under ``mask``: copies depend on nobody's umask."""
    destination.mkdir(parents=True, exist_ok=True)
    for entry in tree:
        target = destination / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.target is not None:
            target.symlink_to(entry.target)
            continue
        shutil.copyfile(root / entry.path, target)
        target.chmod((0o755 if entry.executable else 0o644) & mask)
    for folder, _, _ in os.walk(destination):
        Path(folder).chmod(folder_mode)
