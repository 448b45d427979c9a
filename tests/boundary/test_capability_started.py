"""However a sweep is started, no worker of it and no sandbox reaches a hidden test; and under Ray, as elsewhere, other
hidden tests change no byte."""

import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from hc_ray.engines.server import free_port
from hc_ray.sandboxes.bwrap.command import SYSTEM
from tests.boundary.capability import starts, walk
from tests.boundary.capability.starts import HC_RAY, MARKED, Ground, Spied, ground, spied
from tests.boundary.noninterference.compare import leaks
from tests.boundary.noninterference.datasets import KINDS, SOLVE
from tests.fakes.engine_server import EngineServer
from tests.fakes.figures import tell
from tests.fakes.packages import build_wheel, found_uv, install, make_environment
from tests.fakes.processes import ran, wait
from tests.fakes.recording import Phase, Seen, files_of, stored
from tests.fakes.unsteady_model import answer

__all__ = ["ground"]
pytestmark = [pytest.mark.slow, pytest.mark.ray]
ACTORS = {"ray::Trials", "ray::Sandboxes", "ray::Engine", "ray::Tracker"}
"""All but the verifiers: who must be the same whatever the hidden tests are."""
SHOWN = {*SYSTEM, "/.hc", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/localtime"}
"""What a bwrap sandbox shows of the host, all of it read-only: programs, what they need to start, the runner."""


def _libraries(told: Spied, token: str, *, apart_from: tuple[Path, ...] = ()) -> walk.Walk:
    """What the trials' actor imports from, looked at as it lies there."""
    looked = walk.Walk((token,), quick=True)
    for entry in map(Path, told.around["path"]):
        if entry not in apart_from:
            looked.tree(entry, below=apart_from)
    return looked


def _holds_nothing(told: Spied) -> None:
    around = told.around
    assert told.walked.processes >= 6 and told.walked.files > 50 and told.walked.found == []
    assert any("bwrap" in title or "hc_init" in title for title in told.titles), "no sandbox was open"
    assert list(Path(around["directory"]).glob("*")) == [] and around["sealed"] == "refused"
    # Ray's own supervisor of a job has a name; nothing of ours has one that others could ask for.
    assert [one for one in around["named"] if one["namespace"] != "SUPERVISOR_ACTOR_RAY_NAMESPACE"] == []
    assert around["handles"] and all("Sandboxes" in handle for handle in around["handles"])
    assert not [name for name in around["modules"] if name.startswith(("hc_ray.blind", "hc_ray_actors.verifiers"))]
    assert told.inside, "no candidate told what it saw"
    for walked, found, mounts in told.inside:
        assert walked > 5 and found == [] and {place for place, _ in mounts} <= SHOWN | {"/"}
        assert {mode for place, mode in mounts if place != "/"} == {"ro"}


def test_run_by_uv_in_a_checkout_no_worker_and_no_sandbox_reaches_a_hidden_test(ground):
    """Ray's hook would send the whole checkout, hidden tests included, to every worker of a driver under `uv run`."""
    env = {"UV_PROJECT_ENVIRONMENT": str(Path(sys.executable).parents[1]), "UV_PYTHON_DOWNLOADS": "never"}
    told = spied(ground, [found_uv(), "run", "--no-sync", "--frozen", "hc-ray"], cwd=ground.checkout, env=env)
    starters = [title.split() for title in told.titles if " run --no-sync " in title]
    assert any(Path(words[0]).name == "uv" for words in starters), "uv run is not the driver's parent"
    _holds_nothing(told)
    libraries = _libraries(told, ground.token, apart_from=(starts.CHECKOUT, starts.CHECKOUT / "actors"))
    tell("capability", told.figures("uv run", libraries))
    assert libraries.files > 1000 and libraries.found == []
    assert not any(Path(entry).is_relative_to(ground.checkout) for entry in told.around["path"])


@pytest.fixture(scope="module")
def head(ground):
    """A head that was started by hand in an empty directory; its processes can import the spy of later drivers."""
    empty = ground.root / "nowhere"
    empty.mkdir()
    with starts.head(ground, cwd=empty, env=starts.spying(ground, ground.root / "spied-head")) as running:
        yield running


def _joining(ground: Ground, address: str) -> dict[str, str]:
    """How a driver finds a head on loopback: without the last one Ray takes the address for the host's own."""
    token = {"RAY_AUTH_TOKEN_PATH": str(ground.root / "ray_token"), "RAY_AUTH_MODE": "token"}
    return {**token, "RAY_ADDRESS": address, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def test_on_a_head_that_was_started_by_hand_neither(ground, head):
    address, mark = head
    env = _joining(ground, address)
    told = spied(ground, HC_RAY, cwd=ground.checkout, mark=mark, env=env, place=ground.root / "spied-head")
    tell("capability", told.figures("ray start --head"))
    _holds_nothing(told)


@pytest.fixture(scope="module")
def installed(ground):
    """The wheel in an environment of its own."""
    (ground.root / "empty").mkdir()
    venv = ground.root / "venv"
    make_environment(venv, build_wheel(ground.checkout, ground.root / "dist"))
    return venv


def test_from_the_wheel_in_an_empty_environment_neither(ground, installed):
    told = spied(ground, [str(installed / "bin/hc-ray")], cwd=ground.root / "empty", path=MARKED, alone=True)
    _holds_nothing(told)
    packages = next((installed / "lib").glob("python3*/site-packages"))
    assert str(packages) in told.around["path"] and _libraries(told, ground.token).found == []
    # Opened, only the one sealed archive holds the hidden tests.
    thorough = walk.Walk((ground.token,))
    for part in packages.glob("hc_ray*"):
        thorough.tree(part)
    tell("capability", told.figures("wheel", thorough))
    assert [Path(one).name for one in thorough.found] == [f"{MARKED}.sealed.tar.gz"]


def test_as_a_ray_job_neither(ground, installed):
    """Jobs need more of Ray than hc-ray brings; the job's processes have the environment of their head."""
    install(installed, "ray[default]")
    place, port = ground.root / "spied-job", free_port("127.0.0.1")
    nowhere = ground.root / "nowhere-else"
    nowhere.mkdir()
    spies = starts.spying(ground, place, alone=True)
    with starts.head(ground, cwd=nowhere, env=spies, venv=installed, jobs=port) as (address, mark):
        env = {name: value for name, value in _joining(ground, address).items() if name != "RAY_ADDRESS"}
        submit = [str(installed / "bin/ray"), "job", "submit", "--address", f"http://127.0.0.1:{port}", "--"]
        told = spied(ground, [*submit, str(installed / "bin/hc-ray")], cwd=nowhere, path=MARKED, mark=mark, env=env,
                     place=place, alone=True)  # fmt: skip
    tell("capability", told.figures("ray job submit"))
    _holds_nothing(told)
    assert any("job_supervisor" in title.lower() or "JobSupervisor" in title for title in told.titles), told.titles
    assert _libraries(told, ground.token).found == []


LEFT_OUT = {"RAY_JOB_ID": "the driver's number", "RAY_RAYLET_PID": "the same node's", "_": "the shell's"}
"""Variables of an actor's process that tell which sweep it is, by name."""


def test_under_ray_other_hidden_tests_change_no_byte_and_no_process(ground, head):
    """Real actors on one head, twice: what the engine is sent, what is stored, and the processes that do it."""
    address, mark = head
    looked: list[list[Any]] = []
    looking = threading.Lock()

    def says(body: dict[str, Any]) -> str:
        # Requests come side by side, the engine's own before there is a trial: one look, once all actors stand.
        with looking:
            found = [] if looked[-1] else _processes(mark)
            if "ray::Trials" in {name for name, *_ in found}:
                looked[-1] = found
        return answer(body)

    runs = []
    with EngineServer(says) as server:
        for kind in ("passing", "many"):
            looked.append([])
            runs.append(_under_ray(ground, address, mark, kind, server))
    (one, other), (processes, others) = runs, looked
    assert leaks(one, other) == []
    assert processes == others and {name for name, *_ in processes} >= {"ray::Trials", "ray::Sandboxes", "ray::Engine"}
    assert list(one.verdicts.values()) == [[True]] and list(other.verdicts.values()) == [[False]]


def _under_ray(ground: Ground, address: str, mark: str, kind: str, server: EngineServer) -> Seen:
    """A sweep on the head; the engine, the place and all names are the same each time."""
    place = ground.root / "twice"
    wait(lambda: not _processes(mark), starts.PATIENCE, "the end of the actors of the sweep before")
    shutil.rmtree(place, ignore_errors=True)
    starts.make_marked(place / "tasks", KINDS[kind], SOLVE if kind != "passing" else SOLVE + "# another\n")
    server.wire.clear()
    engine = {"kind": "openai", "model": "fake", "base_url": server.base_url}
    config = {**starts.CONFIG, "dataset": str(place / "tasks"), "engine": engine}
    (place / "config.yaml").write_text(yaml.safe_dump(config))
    env = _joining(ground, address)
    words = [*HC_RAY, "sweep", str(place / "config.yaml"), "-o", str(place / "out")]
    done = ran(*words, cwd=place, env=ground.environment(mark, **env), timeout=starts.PATIENCE)
    assert done.returncode == 0, done.stderr[-3000:]
    return stored({"": {0: Phase(requests=sorted(server.wire))}}, files_of(place / "out"), {}, [])


def _processes(mark: str) -> list[Any]:
    """The actors of the candidates' side: name, environment, working directory."""
    found = []
    for pid in walk.marked(mark):
        name = walk.title(pid).partition(".")[0].partition("(")[0]
        if name in ACTORS:  # Ray's own processes come and go as it likes
            environment = {key: value for key, value in walk.environment(pid).items() if key not in LEFT_OUT}
            found.append((name, environment, str(Path(f"/proc/{pid}/cwd").readlink())))
    return sorted(found, key=lambda one: one[0])
