"""What a client of the MCP server may name, and what of it may be read: folders below those that the user allowed, and
nothing of them that a task seals or a sweep has learnt."""

import functools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from hc_ray.domain.errors import UserError
from hc_ray.domain.filetree import Member, pack
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import digest_of
from hc_ray.machine.paths import data_root
from hc_ray_actors.remote_place import RemotePlace

WORKDIR = "/workspace"
"""Where a workspace lies in a sandbox."""
MOST_BYTES, MOST_PATHS = 256 << 20, 20_000


def closed(has: Callable[[str], bool]) -> str | None:
    """What a folder is that holds more than a model may see, by the names in it: the tests and solution of a task, the
    verdicts of a sweep. None for any other."""
    if has("task.toml") or (has("instruction.md") and (has("tests") or has("solution"))):
        return "a task"
    if has("verifier.json") and has("tests"):
        return "a sealed task"
    return "a sweep" if has("sweep.json") or (has("settings.json") and has("sweeps")) else None


def _around(path: Path) -> Iterator[tuple[Path, str]]:
    """The closed folders that a path lies in, or is."""
    for at in (path, *path.parents):
        if kind := closed(lambda name: os.path.lexists(at / name)):  # noqa: B023 (called at once)
            yield at, kind


class Folders:
    """The folders that the user allowed. Every method raises ``UserError`` for a path that it does not answer."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.roots = tuple(Path(one).expanduser().resolve() for one in allowed)
        for given, root in zip(allowed, self.roots, strict=True):
            if not root.is_dir():
                raise UserError(f"--allow {given}: not a folder")

    def find(self, given: str) -> Path:
        """The path that is meant, links resolved; a relative one begins at the first allowed folder. What lies outside
        is not looked at."""
        try:
            path = (self.roots[0] / given).resolve()
        except (OSError, RuntimeError, ValueError):
            raise UserError(f"{given!r} is not a path") from None
        if not any(path.is_relative_to(root) for root in self.roots):
            known = ", ".join(map(str, self.roots))
            raise UserError(f"{given} is outside of the folders that hc-ray mcp was allowed ({known}); see --allow")
        return path

    def unsealed(self, given: str) -> Path:
        """A path that belongs to no task, but for its environment."""
        path = self.find(given)
        if path.is_relative_to(data_root()):
            raise UserError(f"{given} belongs to hc-ray's own data, which no tool reads")
        for at, kind in _around(path):
            if kind != "a sweep" and path.relative_to(at).parts[:1] != ("environment",):
                raise UserError(f"{given} is part of {kind}, whose tests no tool reads; see hc-ray testgen -p {at}")
        return path

    def workspace(self, given: str) -> Path:
        """A folder of which a model may be told."""
        path = self.unsealed(given)
        if not path.is_dir():
            raise UserError(f"{given} is not a folder; name the folder that the work is done in")
        if any(kind == "a sweep" for _, kind in _around(path)):
            raise UserError(f"{given} is part of a sweep, which holds verdicts; name the folder that is worked in")
        return path

    def sweep(self, given: str) -> Path:
        """A sweep directory, in which no link leads elsewhere."""
        out = self.find(given)
        if not (out / "sweep.json").is_file():
            raise UserError(f"{given} is not a sweep directory (it has no sweep.json)")
        return self.plain(out, "*", "events/*")

    def trial(self, given: str) -> tuple[Path, str]:
        """``OUT/TRIAL``, ``OUT/trials/TRIAL`` or ``OUT`` → the sweep directory and the name, empty for ``OUT``."""
        path = self.find(given)
        if (path / "sweep.json").is_file():
            return self.sweep(given), ""
        out = path.parent.parent if path.parent.name == "trials" else path.parent
        return self.sweep(str(out)), path.name

    @staticmethod
    def plain(folder: Path, *patterns: str) -> Path:
        if link := next((one for part in patterns for one in folder.glob(part) if one.is_symlink()), None):
            raise UserError(f"{link} is a link; links in a sweep directory are not followed")
        return folder


class Contents(NamedTuple):
    """What a model may see of a workspace."""

    members: tuple[Member, ...]
    left_out: tuple[str, ...] = ()
    """Paths that are not among them, with the reason; at most 20 of them."""

    @property
    def tar(self) -> bytes:
        return pack(self.members).tar

    def since(self, before: "Contents") -> bytes:
        """The difference of this state to an earlier one, as a tar."""
        known = {one.path: one for one in before.members}
        changed = [one for one in self.members if known.get(one.path) != one]
        return pack(changed, known.keys() - {one.path for one in self.members}).tar

    def task(self, path: Path, instruction: str, image: str) -> Task:
        """The workspace as a task without tests."""
        held = [[one.path, one.mode, one.target, sha256(one.data).hexdigest()] for one in self.members]
        files = tuple(one.path for one in self.members if one.kind == "file")[:1000]
        return Task(
            name=path.name,
            digest=digest_of({"workspace": str(path), "instruction": instruction, "image": image, "holds": held}),
            instruction=instruction,
            environment=Environment(docker_image=image, base=image, workdir=WORKDIR, files=files),
        )


def contents(workspace: Path) -> Contents:
    """Read a workspace. Left out are tasks and sweeps in it, ``.git`` (a history may hold what was removed), hc-ray's
    own data and what is no file. No link is followed (it leads on within the sandbox), whoever changes the tree
    meanwhile. Raises ``UserError`` where there is more than a sandbox is given."""
    members, left_out, size = [Member(WORKDIR, "folder", 0o755)], [], 0
    for here, folders, files, at in os.fwalk(workspace):
        names, inside = sorted([*folders, *files]), os.path.relpath(here, workspace)
        for name in names:
            path = os.path.normpath(f"{inside}/{name}")
            kind = closed(functools.partial(_there, at, name)) if name in folders else None
            kind = kind or ("history" if name == ".git" else "sealed" if name.endswith(".sealed.tar.gz") else None)
            kind = kind or ("hc-ray's own data" if Path(here, name) == data_root() else None)
            got = kind or _member(f"{WORKDIR}/{path}", name, at)
            if isinstance(got, Member):
                members.append(got)
                size += len(got.data)
            else:
                left_out.append(f"{path}: {got}")
                folders[:] = [one for one in folders if one != name]
            if size > MOST_BYTES or len(members) > MOST_PATHS:
                most = f"{MOST_BYTES >> 20} MiB or {MOST_PATHS:,} paths"
                raise UserError(f"{workspace} holds more than {most}; name a smaller folder")
    return Contents(tuple(members), tuple(left_out[:20]))


def _there(at: int, folder: str, name: str) -> bool:
    try:
        os.stat(f"{folder}/{name}", dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return True


def _member(path: str, name: str, at: int) -> Member | str:
    """A path of the workspace, read by the descriptor of its folder; else why it cannot be."""
    try:
        state = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(state.st_mode):
            return Member(path, "folder", stat.S_IMODE(state.st_mode) | 0o700)
        if stat.S_ISLNK(state.st_mode):
            return Member(path, "link", 0o777, target=os.readlink(name, dir_fd=at))
        if not stat.S_ISREG(state.st_mode):
            return "no file"
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        with os.fdopen(descriptor, "rb") as stream:
            return Member(path, "file", stat.S_IMODE(state.st_mode) | 0o600, data=stream.read(MOST_BYTES + 1))
    except OSError as error:
        return f"cannot be read ({error.strerror})"


class FilledPlace:
    """``ports.SandboxPlace`` whose sandboxes hold a workspace from the beginning."""

    def __init__(self, place: RemotePlace, tar: bytes) -> None:
        self._place, self._tar = place, tar
        self.prepare, self.refuses, self.limits, self.close = place.prepare, place.refuses, place.limits, place.close

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        sandbox = await self._place.create(task, name, network=network)
        try:
            await sandbox.put_tar(self._tar)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox
