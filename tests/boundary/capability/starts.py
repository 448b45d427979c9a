"""Ways to start a sweep, each a process of its own whose children carry a mark: as `uv run` in a checkout, on a Ray
head that was started by hand, as a Ray job, from the wheel in an environment of its own."""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hc_ray.engines.server import free_port
from tests.boundary.capability import walk
from tests.boundary.noninterference.datasets import INSTRUCTION, PLAIN_SH, SOLVE
from tests.fakes.packages import copy_source
from tests.fakes.processes import wait
from tests.fakes.sandbox_home import data_home, open_folder
from tests.fakes.tasks import make_task

CHECKOUT = Path(__file__).parents[3]
HC_RAY = (sys.executable, "-c", "from hc_ray.cli.app import main; main()")
MARKED = "marked"
"""The dataset whose hidden tests and solution carry the mark."""
PATIENCE = 420.0
CONFIG = {
    "agents": ["hc"],
    "sandbox": "bwrap",
    "concurrency": 1,
    "mlflow_uri": "none",
    "budget": {"tokens": 4000},
    "solver": {
        "samples": 1,
        "max_turns": 1,
        "max_rounds": 1,
        "testgen": {"total_min": 1, "total_max": 3, "budget_tokens": 300, "rounds": 1, "second_reading": False},
    },
}


@dataclass(frozen=True)
class Ground:
    """What all starts share."""

    home: Path
    """``HC_RAY_HOME``."""
    root: Path
    """A short path, for Ray's sockets."""
    token: str
    """Stands in the hidden tests and the solution of ``MARKED``."""

    @property
    def checkout(self) -> Path:
        """A copy of what a user cloned, with the marked dataset among the shipped ones."""
        return self.root / "checkout"

    def environment(self, mark: str, **more: str) -> dict[str, str]:
        """For everything that is started: ``mark`` tells whose it is."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "HC_RAY_", "PYTEST"))}
        own = {"HC_RAY_HOME": str(self.home), "TMPDIR": str(self.root), "HC_RAY_TEST_MARK": mark}
        return {**kept, **own, **more}


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """A marked checkout of its own, in a data root with a runner."""
    from hc_ray.sandboxes.runner_build import ensure_runner

    with data_home() as home, open_folder("/tmp") as root:
        ensure_runner()
        made = Ground(home, root, f"hc-ray-canary-{secrets.token_hex(16)}")
        made.checkout.mkdir()
        copy_source(made.checkout)
        mark = f"# {made.token}\n"
        make_marked(made.checkout / "configs" / "tasks" / MARKED, {"test.sh": PLAIN_SH + mark}, SOLVE + mark)
        yield made


def make_marked(folder: Path, tests: dict[str, str], solve: str) -> None:
    text = INSTRUCTION.format(name="add", word="sum", value=5) + "\nThe file `numbers.txt` holds two numbers.\n"
    dockerfile = "FROM python:3.11-slim-bookworm\nWORKDIR /app\nCOPY numbers.txt /app/numbers.txt\n"
    made = {"instruction": text, "dockerfile": dockerfile, "environment": {"numbers.txt": "3 4\n"}}
    make_task(folder, "add", tests=tests, solution={"solve.sh": solve}, **made)


@dataclass(frozen=True)
class Spied:
    """What a sweep showed of itself while its first question waited for an answer."""

    around: dict[str, Any]
    """What the trials' actor could reach (``spy``)."""
    walked: walk.Walk
    titles: tuple[str, ...]
    inside: tuple[tuple[int, list[str], list[tuple[str, str]]], ...]
    """What candidates could reach: files read, those with the mark, mounts with their modes."""

    def figures(self, start: str, *more: walk.Walk) -> dict[str, Any]:
        """For docs/trust.md: how much was looked at, files of ``more`` walks included."""
        return {
            "start": start, "processes": self.walked.processes,
            "files": sum(one.files for one in (self.walked, *more)),
            "files_inside": sum(walked for walked, _, _ in self.inside),
            "bytes": self.walked.bytes, "found": len(self.walked.found),
        }  # fmt: skip


def spied(
    ground: Ground,
    command: Sequence[str],
    *,
    cwd: Path,
    path: str = f"configs/tasks/{MARKED}",
    mark: str | None = None,
    env: Mapping[str, str] | None = None,
    place: Path | None = None,
    alone: bool = False,
) -> Spied:
    """Run a sweep of the marked dataset to its end; look at all of it in the middle. ``place`` is where the spy writes,
    for processes that run already and know it (``spying``)."""
    mark = mark or f"capability-{secrets.token_hex(8)}"
    place = place or ground.root / f"spied-{secrets.token_hex(4)}"
    more = {**spying(ground, place, alone=alone), **(env or {})}
    # This agent calls every candidate, whatever tests a tester thinks of: a candidate tells by its answer what it saw.
    config = {**CONFIG, "agents": ["best_of_n"], "dataset": path}
    config["engine"] = {"kind": "scripted", "script": "spy:answer"}
    (place / "config.yaml").write_text(yaml.safe_dump(config))
    words = [*command, "sweep", str(place / "config.yaml"), "-o", str(place / "out")]
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=cwd, env=ground.environment(mark, **more), stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for((place / "trials.json").exists, process, place / "log")
        around = json.loads((place / "trials.json").read_text())
        pids = walk.marked(mark)
        walked = walk.Walk((ground.token,))
        for pid in pids:
            # The driver, and what started it, work where the user does; it is the one that holds the verifiers.
            walked.process(pid, directory=str(place) not in walk.title(pid))
        for folder in ground.root.iterdir():
            if folder.name not in ("checkout", "venv", "dist"):
                walked.tree(folder)
        (place / "go").write_text("")
        _wait_for(
            lambda: bool(_sandboxed(mark)), process, place / "log"
        )  # its first process comes with its first command
        for pid in (inside := _sandboxed(mark)):
            walked.process(pid)
        titles = tuple(sorted(map(walk.title, [*pids, *inside])))
        assert process.wait(PATIENCE) == 0, (place / "log").read_text()[-3000:]
    finally:
        (place / "go").write_text("")
        end(process)
    return Spied(around, walked, titles, tuple(_inside(place / "out")))


def _sandboxed(mark: str) -> list[int]:
    return [pid for pid in walk.marked(mark) if "hc_init" in walk.title(pid)]


def spying(ground: Ground, place: Path, *, alone: bool = False) -> dict[str, str]:
    """The environment by which the trials' actor finds its spy, and (``alone``) nothing else of ours."""
    (place / "spies").mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("spy.py"), place / "spies" / "spy.py")
    half = len(ground.token) // 2
    halves = f"{ground.token[:half]}:{ground.token[half:]}"
    path = os.pathsep.join(filter(None, (str(place / "spies"), "" if alone else os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "HC_RAY_SPY": str(place), "HC_RAY_SPY_MARK": halves}


def _wait_for(happened: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Until something of a process happened, which says why in its log if it ends before."""
    wait(lambda: happened() or process.poll() is not None, PATIENCE, str(process.args))
    assert process.poll() is None, log.read_text(errors="replace")[-3000:]


def _inside(out: Path) -> Iterator[tuple[int, list[str], list[tuple[str, str]]]]:
    """What the candidates told, from the pass matrix."""
    from hc_ray.stores.sweep_directory import read_parquet

    for path in out.glob("trials/*/agent/matrix.parquet"):
        for row in read_parquet(path.read_bytes()):
            # A text as Python or JSON writes it, whatever stands around.
            if told := re.search(r"\[\d+, \[.*\]\]", row["observed"] or ""):
                walked, found, mounts = json.loads(told[0].replace('\\"', '"'))
                yield walked, found, [tuple(mount) for mount in mounts]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, with its session."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(40)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def head(
    ground: Ground, *, cwd: Path, env: Mapping[str, str], venv: Path = Path(sys.prefix), jobs: int | None = None
) -> Iterator[tuple[str, str]]:
    """A Ray head as cluster.yaml starts one, with a token; its address and the mark of its processes. ``jobs``: the
    port at which it takes jobs."""
    mark = f"head-{secrets.token_hex(8)}"
    port = free_port("127.0.0.1")
    token = ground.root / "ray_token"
    if not token.exists():  # heads that live side by side share it
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    words = [str(venv / "bin/ray"), "start", "--head", "--block", f"--port={port}"]
    words += ["--node-ip-address=127.0.0.1", "--disable-usage-stats", "--num-cpus=2"]
    words += [f"--temp-dir={ground.root / mark[-6:]}", "--object-store-memory=100000000"]
    # Its usual port may be another head's of this machine; without one of its own an agent takes no jobs.
    words += [
        f"--include-dashboard={'true' if jobs else 'false'}",
        f"--dashboard-agent-listen-port={free_port('127.0.0.1')}",
    ]
    words += ["--dashboard-host=127.0.0.1", f"--dashboard-port={jobs}"] if jobs else []
    words += ['--resources={"engine_slot": 1, "sandbox_slot": 1, "verifier_slot": 1}']
    more = {**auth, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **env}
    said = ground.root / f"{mark}.log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            words, cwd=cwd, env=ground.environment(mark, **more), stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(lambda: "Ray runtime started" in said.read_text(errors="replace"), process, said)
        yield f"127.0.0.1:{port}", mark
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        for pid in walk.marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
