"""What processes and sandboxes on the candidates' side are given: no handle of a verifier, no mount of the host's but
its programs and the runner. And that a walk through a process finds what is planted in its reach."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hc_ray.blind.sealing import vault
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.verifiers import Verifiers
from tests.boundary.capability import walk
from tests.boundary.capability.starts import Ground, ground
from tests.boundary.noninterference.datasets import only_add
from tests.fakes.engine_server import EngineServer
from tests.fakes.figures import tell
from tests.fakes.processes import family
from tests.fakes.sandbox_home import closing
from tests.fakes.tars import make_tar
from tests.fakes.unsteady_model import answer

__all__ = ["ground"]
PLANTS: dict[str, Callable[[Path, str], dict[str, Any]]] = {
    "its environment": lambda place, token: {"env": {**os.environ, "SOME": token}},
    "its command line": lambda place, token: {"args": [token[::-1]]},
    "its working directory": lambda place, token: {"cwd": _written(place / "deep" / "file", token.encode()).parents[1]},
    "an archive in its working directory": lambda place, token: {"cwd": _packed(place / "some.tar.gz", token).parent},
    "a file that is open and has no name any more": lambda place, token: {"stdin": _unlinked(place / "gone", token)},
}


def _written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _packed(path: Path, token: str) -> Path:
    path.write_bytes(make_tar({"tests/test.sh": token}, form="w:gz"))
    return path


def _unlinked(path: Path, token: str) -> Any:
    path.write_text(token)
    file = path.open()
    path.unlink()
    return file


@pytest.mark.parametrize("where", PLANTS)
def test_a_planted_token_is_found_where_a_process_could_reach_it(tmp_path: Path, where: str) -> None:
    token = f"hc-ray-canary-{secrets.token_hex(16)}"
    options = {"cwd": tmp_path, "stdin": subprocess.DEVNULL, "args": [], **PLANTS[where](tmp_path, token)}
    words = [sys.executable, "-c", "import time; time.sleep(60)", *options.pop("args")]
    with subprocess.Popen(words, **options) as process:
        try:
            time.sleep(0.2)
            looked = walk.Walk((token,))
            looked.process(process.pid)
        finally:
            process.kill()
    tell("capability", {"planted": where, "found_where_planted": bool(looked.found)})
    assert looked.found


async def test_a_token_in_the_root_of_a_sandbox_is_found(ground: Ground, tmp_path: Path) -> None:
    token = f"hc-ray-canary-{secrets.token_hex(16)}"
    only_add(tmp_path)
    sealed = vault.seal(tmp_path, ground.home / "public", ground.home / "sealed" / "capability")
    async with closing("bwrap", ground.home / "public") as place:
        sandbox = await place.create(sealed.tasks[0], "walked")
        await sandbox.put({"/srv/deep/file": token.encode()})
        await sandbox.exec(["true"], timeout=20)  # it may begin with its first command
        looked = walk.Walk((token,), quick=True)
        for pid in family(sandbox.process.pid):  # type: ignore[attr-defined]
            looked.process(pid, directory=False)
    tell("capability", {"planted": "the root of a sandbox", "found_where_planted": bool(looked.found)})
    assert looked.found


@pytest.mark.docker
async def test_a_containers_only_mount_is_the_runners_volume(ground: Ground, tmp_path: Path) -> None:
    import docker

    only_add(tmp_path)
    sealed = vault.seal(tmp_path, ground.home / "public", ground.home / "sealed" / "capability")
    client = docker.from_env()
    async with closing("docker", ground.home / "public") as place:
        sandbox = await place.create(sealed.tasks[0], "inspected")
        about = client.containers.get(sandbox.container).attrs  # type: ignore[attr-defined]
        client.close()
    assert [(mount["Type"], mount["Destination"], mount["RW"])
            for mount in about["Mounts"]] == [("volume", "/.hc", False)]  # fmt: skip
    assert not about["HostConfig"]["Privileged"] and not about["HostConfig"]["PidMode"]
    assert about["HostConfig"]["NetworkMode"] == "none"


def test_nothing_that_solvers_are_given_leads_to_a_verifier(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every argument of every actor, and all that hangs on it, as an in-process sweep hands them out."""
    from tests.fakes.recording import record

    given: list[tuple[type, tuple[Any, ...]]] = []
    spawn = Cluster.spawn

    def noting(self: Cluster, cls: type, *args: Any, **options: Any) -> Any:
        given.append((cls, args))
        return spawn(self, cls, *args, **options)

    monkeypatch.setattr(Cluster, "spawn", noting)
    with EngineServer(answer) as server:
        record(ground.root / "handles", ground.home, server, only_add, agents=("raw",))
    assert {"Sandboxes", "Trials", "Verifiers", "Engine"} <= {cls.__name__ for cls, _ in given}
    for cls, args in given:
        if cls is not Verifiers:
            assert not _reaches(args, Verifiers), f"{cls.__name__} is given a way to a verifier"
    assert _reaches([{"deep": (lambda held: lambda: held)(Verifiers.__new__(Verifiers))}],
                    Verifiers), "nothing is found"  # fmt: skip


def _reaches(start: Any, wanted: type) -> bool:
    """Whether an object hangs on another, classes, modules and running frames left out."""
    import gc
    import types

    seen: set[int] = set()
    waiting = [start]
    passing = (type, types.ModuleType, types.FrameType)
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, passing):
            continue
        seen.add(id(one))
        if isinstance(one, wanted):
            return True
        referents = gc.get_referents(one)
        if isinstance(one, types.FunctionType):
            referents = [*(one.__closure__ or ()), *(one.__defaults__ or ())]
        waiting += referents
    return False
