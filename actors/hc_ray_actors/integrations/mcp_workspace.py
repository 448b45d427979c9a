"""A workspace as a client's model may see it, for use in sandboxes, and the suites written for it."""

import functools
import json
import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from hc_ray.domain.errors import UserError
from hc_ray.domain.filetree import Member, pack, unpack
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.suite import SelfTest, Suite
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import digest_of
from hc_ray.machine.paths import data_root
from hc_ray.machine.whole_files import beside
from hc_ray_actors.integrations.mcp_folders import Folders, closed, opened
from hc_ray_actors.remote_place import RemotePlace

WORKDIR = "/workspace"
"""Path of the workspace in a sandbox."""
MOST_BYTES, MOST_PATHS, MOST_SUITE = 256 << 20, 20_000, 8 << 20


class Contents(NamedTuple):
    """The part of a workspace that a model may see."""

    members: tuple[Member, ...]
    left_out: tuple[str, ...] = ()
    """Paths left out, with the reason; at most 20."""

    @property
    def tar(self) -> bytes:
        return pack(self.members).tar

    def since(self, before: "Contents") -> bytes:
        """The changes since an earlier state, as a tar."""
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
    """Read a workspace, except tasks and sweeps in it, ``.git`` (whose history may contain removed files), hc-ray's own
    data and special files. Links are kept, not followed. Raises ``UserError`` if it is too large for a sandbox."""
    members, left_out, size = [Member(WORKDIR, "folder", 0o755)], [], 0
    root = opened(workspace, os.O_DIRECTORY)
    try:
        for here, folders, files, at in os.fwalk(".", dir_fd=root):
            for name in sorted([*folders, *files]):
                path = os.path.normpath(f"{here}/{name}")
                kind = "history" if name == ".git" else "sealed" if name.endswith(".sealed.tar.gz") else None
                kind = kind or ("the data of hc-ray" if workspace / path == data_root() else None)
                got = kind or _member(f"{WORKDIR}/{path}", name, at)
                if isinstance(got, Member):
                    members.append(got)
                    size += len(got.data)
                else:
                    left_out.append(f"{path.encode(errors='replace').decode()}: {got}")
                if name in folders and not (isinstance(got, Member) and got.kind == "folder"):
                    folders.remove(name)  # the walk would open a link to a folder before skipping it
                if size > MOST_BYTES or len(members) > MOST_PATHS:
                    most = f"{MOST_BYTES >> 20} MiB or {MOST_PATHS:,} paths"
                    raise UserError(f"{workspace} contains more than {most}; name a smaller folder")
    finally:
        os.close(root)
    return Contents(tuple(members), tuple(left_out[:20]))


def _there(at: int, folder: str, name: str) -> bool:
    try:
        os.stat(f"{folder}/{name}", dir_fd=at, follow_symlinks=False)
    except OSError:
        return False
    return True


def _member(path: str, name: str, at: int) -> Member | str:
    """Read a path of the workspace through its folder's descriptor; returns the reason if that is not possible."""
    try:
        name.encode()
        state = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(state.st_mode):
            kind = closed(functools.partial(_there, at, name))
            return kind or Member(path, "folder", stat.S_IMODE(state.st_mode) | 0o700)
        if stat.S_ISLNK(state.st_mode):
            (target := os.readlink(name, dir_fd=at)).encode()
            leads = Path(os.path.realpath(os.path.join(f"/proc/self/fd/{at}", target)))  # noqa: PTH118
            ours = leads.is_relative_to(data_root())  # the guard of what is sealed lets nobody make such a link
            return "a link to the data of hc-ray" if ours else Member(path, "link", 0o777, target=target)
        if not stat.S_ISREG(state.st_mode):
            return "no file"
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
        with os.fdopen(descriptor, "rb") as stream:
            return Member(path, "file", stat.S_IMODE(state.st_mode) | 0o600, data=stream.read(MOST_BYTES + 1))
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except UnicodeError:
        return "its name or link target is not valid UTF-8"


class FilledPlace:
    """``ports.MakesSandboxes`` whose sandboxes start with a workspace."""

    def __init__(self, place: RemotePlace, tar: bytes) -> None:
        self._place, self._tar = place, tar

    async def create(self, task: Task, name: str, *, network: bool = False) -> Sandbox:
        sandbox = await self._place.create(task, name, network=network)
        try:
            await sandbox.put_tar(self._tar)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox


def _shelf(workspace: Path) -> Path:
    """This user's folder with the suites of a workspace."""
    return data_root() / "mcp" / digest_of(str(workspace))[:16]


def keep(workspace: Path, suite: Suite, tar: bytes) -> Path:
    """Store a suite, and the state of the workspace when it was written, replacing that of the previous suite. Returns
    the suite's file."""
    shelf = _shelf(workspace)
    shelf.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in shelf.glob("*.tar"):
        old.unlink()
    file = shelf / f"{suite.hash[:12]}.json"
    for path, data in ((file.with_suffix(".tar"), tar), (file, suite.model_dump_json(indent=1).encode())):
        with beside(path, data, lasting=False) as new:
            new.replace(path)
    return file


def kept(workspace: Path, given: str | None, folders: Folders) -> tuple[str, Sequence[SelfTest], Contents | None]:
    """The name and tests of a suite, and the workspace state that it was written for, if known. ``given`` is a suite's
    name or file; None means the workspace's last suite. Raises ``UserError``."""
    files = {
        file.stem: file for file in sorted(_shelf(workspace).glob("*.json"), key=lambda one: one.stat().st_mtime_ns)
    }
    if given is None and not files:
        raise UserError(f"no suite was generated for {workspace}; call generate_tests first, or name a suite's file")
    name = [*files][-1] if given is None else given
    if name not in files:
        return name, _read(folders.unsealed(name), name), None
    before = files[name].with_suffix(".tar")
    held = Contents(unpack(before.read_bytes()).members) if before.is_file() else None
    return name, _read(files[name], name), held


def _read(file: Path, given: str) -> Sequence[SelfTest]:
    """The tests of a suite written by a trial, a sweep, `testgen --json` or this server. The content of other files is
    never quoted."""
    try:
        with os.fdopen(opened(file), "rb") as stream:
            data = json.loads(stream.read(MOST_SUITE))
        suite = Suite(tests=data.get("suite", data)["tests"])
    except OSError as error:
        raise UserError(f"{given}: neither a suite of this workspace nor a readable file: {error.strerror}") from None
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        raise UserError(f"{given} is not a suite; generate_tests and hc-ray testgen --json write one") from None
    if not suite.tests:
        raise UserError(f"{given} contains no tests")
    return suite.tests
