"""``scripts/bench engine-use``: how well a sweep of this machine keeps its engine at work. It finds the engine's speed
where none is known, runs the starter's dev functions (or what is asked for) with all three agents, and prints what the
report says of the engine. ``--busy``: with so many neighbours on this machine that each keep a processor busy.

    scripts/bench engine-use -o runs/use
    scripts/bench engine-use -o runs/beside-two --busy 2
    scripts/bench engine-use -o runs/apart --engine '{threads: 4}'
    scripts/bench engine-use -o runs/server --engine '{base_url: "http://127.0.0.1:8000/v1", model: mine}'
"""

import argparse
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.errors import UserError
from hc_ray.engines.speed import known_speed
from hc_ray.reports import report, terminal
from hc_ray.reports.engine_use import engine_lines
from hc_ray.reports.terminal import say
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.jobs.bench import bench_engine


def config_of(given: argparse.Namespace, engine: EngineConfig) -> SweepConfig:
    """The sweep: small budgets, as the starter's other measurements use."""
    return SweepConfig.model_validate({
        "dataset": given.dataset, "tags": tuple(given.tag), "seeds": given.seeds, "limit": given.tasks,
        "sandbox": given.sandbox, "out": given.out, "mlflow_uri": "none",
        "concurrency": given.concurrency, "sandbox_slots": given.slots, "engine": engine,
        "budget": {"tokens": 1500}, "solver": {"max_rounds": 2, "testgen": {"budget_tokens": 500, "rounds": 1}},
    })  # fmt: skip


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
    parser.add_argument("--tag", action="append", default=[], help="only tasks with this tag")
    parser.add_argument("--tasks", type=int, help="at most so many")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sandbox", default="bwrap")
    parser.add_argument("-n", "--concurrency", type=int)
    parser.add_argument("--slots", type=int, help="sandboxes that work at once")
    parser.add_argument("--ray", action="store_true", help="real actors, instead of one process")
    parser.add_argument("--busy", type=int, default=0, help="neighbours that each keep a processor busy")
    parser.add_argument("--engine", default="{}", help="settings of the engine, as YAML: '{threads: 4}'")
    given = parser.parse_args()
    resume = Path(given.out, "sweep.json").is_file()
    try:
        engine = EngineConfig.model_validate(yaml.safe_load(given.engine))
        plan = prepare(config_of(given, engine), resume=resume)
        if known_speed(engine) is None:
            bench_engine(engine, tell=lambda line: say(line, stream=sys.stderr))
            plan = prepare(config_of(given, engine), resume=resume)
    except (UserError, ValueError, yaml.YAMLError) as fault:
        parser.exit(2, f"engine-use: {str(fault).splitlines()[0]}\n")
    progress = terminal.Progress(len(plan.trials), done=plan.done, estimated_seconds=None, stream=sys.stderr)
    with progress, neighbours(given.busy):
        sweep.run(plan, events=progress, cluster=None if given.ray else Cluster())
    used = report.summarise(SweepStore(given.out))["engine_use"]
    for line in engine_lines(used) if used else ():
        say(line)


if __name__ == "__main__":
    main()
