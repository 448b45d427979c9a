"""Copies a Dockerfile's COPY sources from the task's public environment folder into a bwrap sandbox."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from hc_ray.domain.filetree import Member, absolute
from hc_ray.domain.task import Copy, Task
from hc_ray.sandboxes.bwrap.files import RootTree


def environment_fault(task: Task, folder: Path) -> str | None:
    """Why the environment's files cannot be placed as an image build would; None if they can."""
    if task.environment.dockerfile is not None and (folder / ".dockerignore").exists():
        return "its environment has a .dockerignore, which only an image build reads"
    for copy in task.environment.copies:
        for source in copy.sources:
            if not _sources(folder, source):
                return f"its Dockerfile copies {source}, which environment/ does not hold"
    return None


def copy_environment(task: Task, folder: Path, tree: RootTree) -> None:
    """Place the environment's files, in which there is no fault."""
    if task.environment.dockerfile is None:
        if folder.is_dir():
            for member in _below(folder, task.environment.workdir):
                tree.write(member)
        return
    for copy in task.environment.copies:
        for member in _copied(copy, folder):
            tree.write(member)


def _copied(copy: Copy, folder: Path) -> Iterator[Member]:
    found = [path for source in copy.sources for path in _sources(folder, source)]
    into_folder = copy.destination.endswith("/") or len(found) > 1
    for path in found:
        if path.is_dir() and not path.is_symlink():
            yield from _below(path, copy.destination)
        else:
            name = str(PurePosixPath(copy.destination, path.name)) if into_folder else copy.destination
            yield _member(path, name)


def _sources(folder: Path, pattern: str) -> list[Path]:
    """The files and folders named by one source, with wildcards expanded; never outside the folder."""
    relative = pattern.strip("/") or "."
    if ".." in PurePosixPath(relative).parts:
        return []
    if relative == ".":
        return [folder] if folder.is_dir() else []
    if any(sign in relative for sign in "*?["):
        return sorted(folder.glob(relative))
    path = folder / relative
    return [path] if path.exists() or path.is_symlink() else []


def _below(folder: Path, into: str) -> Iterator[Member]:
    for here, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(here, name)
            yield _member(path, str(PurePosixPath(into, path.relative_to(folder))))


def _member(path: Path, into: str) -> Member:
    state = path.lstat()
    mode = stat.S_IMODE(state.st_mode)
    if stat.S_ISLNK(state.st_mode):
        return Member(absolute(into), "link", 0o777, target=str(path.readlink()))
    if stat.S_ISDIR(state.st_mode):
        return Member(absolute(into), "folder", mode)
    return Member(absolute(into), "file", mode, data=path.read_bytes())
