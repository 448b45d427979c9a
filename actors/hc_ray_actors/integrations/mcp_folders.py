"""The paths that a client of the MCP server may name: those below the folders that the user allowed, except sealed
parts of tasks and results of sweeps. Allowed paths are read without following links, even ones created after the
check."""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hc_ray.domain.errors import UserError
from hc_ray.machine.paths import data_root, expanded
from hc_ray.stores.sweep_directory import SweepStore


def closed(has: Callable[[str], bool]) -> str | None:
    """Describe a folder with content that no model may see, recognised by the names in it: a task's tests and solution,
    verifier output, a sweep's verdicts. None for other folders."""
    graded = has("tests") or has("solution")
    if has("task.toml") or (has("instruction.md") and graded) or (has("task.yaml") and has("run-tests.sh")):
        return "a task"
    if (has("verifier.json") and graded) or (has("sealed") and has("public")):
        return "the data of hc-ray"
    return "a sweep" if has("sweep.json") or (has("settings.json") and has("sweeps")) else None


def _around(path: Path) -> Iterator[tuple[Path, str]]:
    """The closed folders among a path and its parents."""
    for at in (path, *path.parents):
        if kind := closed(lambda name: os.path.lexists(at / name)):  # noqa: B023 (called at once)
            yield at, kind


def opened(path: Path, flags: int = 0) -> int:
    """Open an absolute path for reading and return its descriptor. Raises ``UserError`` if it leads through a link,
    ``OSError`` if it cannot be read."""
    at = os.open("/", os.O_PATH | os.O_DIRECTORY)
    for number, part in enumerate(path.parts[1:], 2):
        way = os.O_PATH | os.O_DIRECTORY if number < len(path.parts) else os.O_NONBLOCK | flags
        try:
            below = os.open(part, way | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UserError(f"{path} does not exist, or leads through a link; links are not followed") from None
            raise
        finally:
            os.close(at)
        at = below
    return at


class PlainStore(SweepStore):
    """A sweep directory, read without following links."""

    def find(self, path: str) -> bytes | None:
        try:
            with os.fdopen(opened(Path(self._path(path))), "rb") as stream:
                return stream.read()
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> list[str]:
        try:
            root = opened(Path(self._path(prefix)), os.O_DIRECTORY)
        except FileNotFoundError:
            return []
        try:
            found = [f"{prefix}/{at}/{name}" for at, _, files, _ in os.fwalk(".", dir_fd=root) for name in files]
        finally:
            os.close(root)
        return sorted(map(os.path.normpath, found))

    def holding(self, name: str) -> set[str]:
        found = (path.split("/") for path in self.list("trials"))
        return {parts[1] for parts in found if parts[2:] == [name]}


class Folders:
    """The folders that the user allowed. Every method raises ``UserError`` for a path that it refuses."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.roots = tuple(expanded(one).resolve() for one in allowed)
        for given, root in zip(allowed, self.roots, strict=True):
            if not root.is_dir():
                raise UserError(f"--allow {given}: not a folder")

    def find(self, given: str) -> Path:
        """Resolve a path and its links; relative paths start at the first allowed folder. Refuses paths outside of the
        allowed folders."""
        try:
            path = (self.roots[0] / given).resolve()
        except (OSError, RuntimeError, ValueError):
            raise UserError(f"{given!r} is not a path") from None
        if not any(path.is_relative_to(root) for root in self.roots):
            known = ", ".join(map(str, self.roots))
            raise UserError(f"{given} is outside the folders that hc-ray mcp may read ({known}); see --allow")
        return path

    def unsealed(self, given: str) -> Path:
        """A path that is not part of a task, except of its environment."""
        path = self.find(given)
        around = [*_around(path), *((data_root(), "the data of hc-ray"),) * path.is_relative_to(data_root())]
        for at, kind in around:
            if kind == "a task" and path.relative_to(at).parts[:1] != ("environment",):
                raise UserError(f"{given} is part of a task, whose tests no tool may read; see hc-ray testgen -p {at}")
            if kind == "the data of hc-ray":
                raise UserError(f"{given} is part of {kind}, which no tool may read")
        return path

    def workspace(self, given: str) -> Path:
        """A folder whose content a model may see."""
        path = self.unsealed(given)
        if not path.is_dir():
            raise UserError(f"{given} is not a folder; name the folder to work in")
        if any(kind == "a sweep" for _, kind in _around(path)):
            raise UserError(f"{given} is part of a sweep, which contains verdicts; name the folder to work in")
        return path

    def sweep(self, given: str) -> PlainStore:
        """A sweep directory."""
        out = self.unsealed(given)
        if not (out / "sweep.json").is_file():
            raise UserError(f"{given} is not a sweep directory (it has no sweep.json)")
        return PlainStore(str(out))

    def trial(self, given: str) -> tuple[PlainStore, str]:
        """Split ``OUT/TRIAL``, ``OUT/trials/TRIAL`` or ``OUT`` into the sweep directory and the trial's name, empty for
        ``OUT``."""
        path = self.find(given)
        if (path / "sweep.json").is_file():
            return self.sweep(given), ""
        out = path.parent.parent if path.parent.name == "trials" else path.parent
        return self.sweep(str(out)), path.name
