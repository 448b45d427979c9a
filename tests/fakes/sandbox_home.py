"""A data root for tests of real sandboxes: users of sandboxes can enter it (pytest's own folders they cannot)."""

import asyncio
import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.machine.owner import current_owner
from hc_ray.machine.paths import data_root
from hc_ray.sandboxes.runner_build import runner_digest

if TYPE_CHECKING:
    from hc_ray.blind.sealing.vault import SealedDataset

BACKENDS = ["bwrap", pytest.param("docker", marks=pytest.mark.docker)]


@functools.cache
def _folder() -> Path:
    """One folder for all tests of this process: the runner is built once."""
    if given := os.environ.get("HC_RAY_TEST_HOME"):
        home = Path(given)
        home.mkdir(parents=True, exist_ok=True)
    else:
        home = Path(tempfile.mkdtemp(prefix="hc-ray-test-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _link_runner(data_root() / "runner", home / "runner")
    home.chmod(0o755)
    return home


def _link_runner(source: Path, target: Path) -> None:
    """The runner of this checkout, where scripts/install has built it: to build one takes ten seconds."""
    digest = runner_digest()
    if (source / digest).is_dir():
        target.mkdir(mode=0o755)
        try:
            shutil.copytree(source / digest, target / digest, symlinks=True, copy_function=os.link)
        except OSError:  # the folder for temporary files is another file system: one is built
            shutil.rmtree(target)


@contextlib.contextmanager
def open_folder(place: str | None = None) -> Iterator[Path]:
    """A folder that every user of the machine can enter (pytest's own are private), gone in the end."""
    with tempfile.TemporaryDirectory(prefix="hc-", dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextlib.contextmanager
def sealed_in(dataset: Path) -> Iterator[tuple[Path, "SealedDataset"]]:
    from hc_ray.blind.sealing import vault

    with data_home(), open_folder() as folder:
        yield folder, vault.seal(dataset, folder / "public", folder / "sealed")


@contextlib.contextmanager
def data_home() -> Iterator[Path]:
    """``HC_RAY_HOME`` for a while. ``HC_RAY_TEST_HOME`` names a folder to keep and share between runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HC_RAY_HOME", str(_folder()))
        yield _folder()


@contextlib.contextmanager
def runs_home() -> Iterator[tuple[Path, Path]]:
    """``data_home`` with a runner, and a folder in it for runs, which the sandboxes' users can enter."""
    from hc_ray.sandboxes.runner_build import ensure_runner

    with data_home() as home:
        ensure_runner()
        with open_folder(str(home)) as runs:
            yield home, runs


@contextlib.contextmanager
def own_home() -> Iterator[Path]:
    """A data root of a test's own, where nothing was looked at or kept before; the runner is the other tests'."""
    from hc_ray.sandboxes.runner_build import ensure_runner

    with data_home() as shared:
        ensure_runner()
        own = shared / f"own-{uuid.uuid4().hex}"
        own.mkdir(mode=0o755)
        shutil.copytree(shared / "runner", own / "runner", symlinks=True, copy_function=os.link)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HC_RAY_HOME", str(own))
            yield own
        shutil.rmtree(own, ignore_errors=True)


@contextlib.contextmanager
def laid_out(task: Task, files: Mapping[str, str] | None = None) -> Iterator[Path]:
    """A public root that holds one task's environment: its Dockerfile, and ``files``."""
    with data_home() as home:
        root = home / f"public-{uuid.uuid4().hex[:8]}"
        for name, text in {"Dockerfile": task.environment.dockerfile or "", **(files or {})}.items():
            path = root / task.digest / "environment" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        yield root
        shutil.rmtree(root)


@contextlib.contextmanager
def opened(backend: str, public_root: Path) -> Iterator[SandboxPlace]:
    """A place for fixtures that are no coroutines."""
    place = open_place(backend, public_root)
    yield place
    asyncio.run(place.close())


@contextlib.asynccontextmanager
async def closing(backend: str, public_root: Path) -> AsyncIterator[SandboxPlace]:
    place = open_place(backend, public_root)
    try:
        yield place
    finally:
        await place.close()


def open_place(backend: str, public_root: Path) -> SandboxPlace:
    if backend == "docker":
        from hc_ray.sandboxes.docker.sandbox import DockerPlace

        return DockerPlace(public_root, owner=current_owner())
    from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace

    return BwrapPlace(public_root, public_root.parent / "sandboxes" / "test", owner=current_owner())
