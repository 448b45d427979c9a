"""``scripts/bench engine-use``: how well a sweep of this machine keeps its engine at work. It finds the engine's speed
where none is known, runs the starter's dev functions (or what is asked for) with all three agents, and prints what the
report says of the engine. ``--against``: sweep directories of other versions, of the same trials, held against the same
speed by wall time and by the tokens that trials were charged, reused answers included, since older versions kept no
account. ``--busy``: with so many neighbours on this machine that each keep a processor busy.

``--played``: an engine that takes none of this machine's processors, as one on a GPU does. It is simulated: a script
plays a model that makes mistakes on the terminal tasks, and each request takes the time that its tokens would take at
the speed of ``PLAYED``. What is measured is whether trials, sandboxes and grading keep such an engine at work.

    scripts/bench engine-use -o runs/use
    scripts/bench engine-use -o runs/played --played
    scripts/bench engine-use -o runs/use --against runs/before
    scripts/bench engine-use -o runs/beside-two --busy 2 --against runs/use
    scripts/bench engine-use -o runs/deep --layers 4
    scripts/bench engine-use -o runs/apart --engine '{threads: 4}'
    scripts/bench engine-use -o runs/server --engine '{base_url: "http://127.0.0.1:8000/v1", model: mine}'
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.engines.catalogue import catalogue, pull, resolve, save_profile
from hc_ray.engines.scripted import ScriptedModel
from hc_ray.engines.speed import Speed, keep_speed, known_speed
from hc_ray.machine.paths import configs_dir
from hc_ray.reports import report, terminal
from hc_ray.reports.engine_use import engine_lines
from hc_ray.reports.terminal import say
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.jobs.bench import bench_engine
from tests.bench.deepened import deepen

PLAYED = Speed(knee=8, completion_tokens_per_second=200, prompt_tokens_per_second=4000, measured="simulated")
"""Chosen, not measured: slow enough for two cores to keep up with, as a larger model's server would be."""
_ENGINE = EngineConfig(kind="scripted", script="tests.fakes.plays_mistakes:good", context_tokens=65_536,
                       parallel=PLAYED.knee)  # fmt: skip


def engine_of(layers: int, given: str) -> EngineConfig:
    """The demo's engine with what is ``given`` of it as YAML, or one whose model has so many times the layers, which
    is made once."""
    plain = EngineConfig.model_validate(yaml.safe_load(given))
    if layers == 1:
        return plain
    entry = catalogue()[plain.model]
    path = pull(entry.name).with_name(f"{entry.name}-{layers}-{entry.sha256[:8]}.gguf")
    if not path.is_file():
        deepen(entry.path, part := path.with_suffix(".part"), layers)
        part.replace(path)
    save_profile(resolve(str(path)), entry.profile)
    return plain.model_copy(update={"model": str(path)})


def config_of(given: argparse.Namespace, engine: EngineConfig) -> SweepConfig:
    """The sweep: small budgets, as the starter's other measurements use; those of a capable model where one is
    played."""
    own: dict[str, Any] = {"engine": engine, "budget": {"tokens": 1500},
                           "solver": {"max_rounds": 2, "testgen": {"budget_tokens": 500, "rounds": 1}}}  # fmt: skip
    if given.played:
        own = {"engine": engine, "budget": {"tokens": 200_000}, "agents": ("raw", "hc"),
               "solver": {"agent_style": "loop", "max_answer_tokens": 4000}}  # fmt: skip
    return SweepConfig.model_validate({
        "dataset": given.dataset, "tags": tuple(given.tag), "seeds": given.seeds, "limit": given.tasks,
        "sandbox": given.sandbox, "out": given.out, "mlflow_uri": "none",
        "concurrency": given.concurrency, "sandbox_slots": given.slots, **own,
    })  # fmt: skip


class Paced(ScriptedModel):
    """A script that takes a slot's time for its tokens: with every slot busy the engine is as fast as ``PLAYED``."""

    async def complete(self, prompt: Prompt) -> Completion:
        said = await super().complete(prompt)
        await asyncio.sleep(PLAYED.knee * PLAYED.seconds(said.prompt_tokens, said.completion_tokens))
        return said


def figures(out: str, speed: Speed) -> dict[str, Any]:
    """A sweep directory held against a speed: from its first trial's start to its last one's end."""
    rows = report.rows_of(SweepStore(out))
    results = [json.loads(SweepStore(out).read(f"trials/{row['trial']}/result.json"))["agent_result"] for row in rows]
    prompts, answers = (sum(one[key] or 0 for one in results) for key in ("n_input_tokens", "n_output_tokens"))
    began = min(datetime.fromisoformat(row["started_at"]) for row in rows)
    wall = (max(datetime.fromisoformat(row["finished_at"]) for row in rows) - began).total_seconds()
    return {
        "out": out, "trials": len(rows), "passes": sum(bool(row["passed"]) for row in rows),
        "timeouts": sum(row["stop_reason"] == "timeout" for row in rows),
        "prompt_tokens": prompts, "completion_tokens": answers, "seconds": wall,
        "charged": speed.seconds(prompts, answers) / wall,
    }  # fmt: skip


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Processes of ordinary priority in sessions of their own that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench engine-use", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("-o", "--out", required=True, help="the sweep's directory; the same command goes on in it")
    parser.add_argument("-p", "--dataset", default="starter")
    parser.add_argument("--played", action="store_true", help="a simulated engine on processors of its own")
    parser.add_argument("--tag", action="append", default=[], help="only tasks with this tag")
    parser.add_argument("--tasks", type=int, help="at most so many")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("-n", "--concurrency", type=int)
    parser.add_argument("--slots", type=int, help="sandboxes that work at once")
    parser.add_argument("--ray", action="store_true", help="real actors, instead of one process")
    parser.add_argument("--busy", type=int, default=0, help="neighbours that each keep a processor busy")
    parser.add_argument("--layers", type=int, choices=range(1, 9), default=1, help="times the model's own")
    parser.add_argument("--engine", default="{}", help="settings of the engine, as YAML: '{threads: 4}'")
    parser.add_argument("--against", action="append", default=[], metavar="DIR")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    engine = _ENGINE if given.played else engine_of(given.layers, given.engine)
    if given.played:
        given.dataset = str(configs_dir() / "tasks" / "terminal")
        os.environ["HC_PLAYED_DATASET"] = given.dataset
        keep_speed(engine, PLAYED)
    elif known_speed(engine) is None:
        bench_engine(engine, tell=lambda line: say(line, stream=sys.stderr))
    speed = known_speed(engine)
    assert speed is not None
    plan = prepare(config_of(given, engine), resume=Path(given.out, "sweep.json").is_file())
    progress = terminal.Progress(len(plan.trials), done=plan.done, estimated_seconds=None, stream=sys.stderr)
    paced = mock.patch("hc_ray.engines.scripted.ScriptedModel", Paced if given.played else ScriptedModel)
    with progress, paced, neighbours(given.busy):
        sweep.run(plan, events=progress, cluster=None if given.ray else InProcess())
    found = [figures(out, speed) for out in (given.out, *given.against)]
    if given.json:
        print(json.dumps(found))
        return
    used = report.summarise(SweepStore(given.out))["engine_use"]
    for line in engine_lines(used) if used else ():
        say(line)
    terminal.table(
        ("sweep", "trials", "passes", "timeouts", "prompt tokens", "answer tokens", "seconds", "charged/knee",
         "times as fast"),
        [(one["out"], str(one["trials"]), str(one["passes"]), str(one["timeouts"]), f"{one['prompt_tokens']:,}",
          f"{one['completion_tokens']:,}", f"{one['seconds']:.0f}", f"{one['charged']:.2f}",
          f"{one['seconds'] / found[0]['seconds']:.2f}") for one in found],
    )  # fmt: skip


if __name__ == "__main__":
    main()
