"""``scripts/bench lineages``: what each part of the search over lineages does, and what it is worth where the suite is
good and where it is poor. The model is scripted, not measured: tests/fakes/plays_mistakes.py plays references and wrong
solutions at the rates stated there, and writes tests of the two qualities stated there. Sandboxes, suites, selection
and grading are real. A sweep of ``hc`` for each quality over terminal tasks outside of the holdout, an audit that
grades every state, and the replay of the stored pools: as run, and with each part taken away.

    HC_RAY_HOME=/tmp/hc-ray-lineages scripts/bench lineages -o runs/lineages --seeds 2
    scripts/bench lineages -o runs/lineages --in-memory --seeds 8

``--in-memory``: nothing is run or graded (tests/fakes/played_world.py); the search is the same, over many more trials.
Tasks whose states are no text (binary files, removed paths) cannot be graded again, and are left out of the table."""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.ports import Store
from hc_ray.machine.paths import configs_dir
from hc_ray.reports.page import difference_text, interval_of
from hc_ray.reports.replay import choose, read_pools
from hc_ray.reports.replay_figures import replay
from hc_ray.reports.terminal import heading, say, table
from hc_ray.stores.sweep_directory import SweepStore, read_parquet
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.jobs import audit
from hc_ray_actors.jobs.audit_subjects import AuditSettings
from tests.fakes import played_world, sweepdir
from tests.fakes.plays_mistakes import QUALITIES
from tests.fakes.sweepdir import MemoryStore

DATASET = configs_dir() / "tasks" / "terminal"
PARTS = ("suite off", "repair off", "width 1", "discrimination off", "tournament off")


def config_of(given: argparse.Namespace, quality: str) -> SweepConfig:
    """The sweep of one quality."""
    script = f"tests.fakes.plays_mistakes:{quality}"
    return SweepConfig.model_validate({
        "dataset": str(DATASET),
        "include": tuple(given.include),
        "limit": given.tasks,
        "seeds": given.seeds,
        "agents": ("hc",),
        "engine": EngineConfig(kind="scripted", script=script, context_tokens=65_536),
        "sandbox": "bwrap",
        "concurrency": given.concurrency,
        "solver": {
            "agent_style": "loop", "max_answer_tokens": 4000, "plans": ("plain",), "greedy": 1, "samples": 3,
            "max_rounds": 2, "repairs": 2, "tournament": True, "feedback": "trusted",
            "testgen": {"style": "files", "rounds": 1, "answer_tokens": 4000, "budget_tokens": 100_000,
                        "second_reading": True},
        },
        "budget": {"tokens": 1_000_000},
        "out": str(Path(given.out, quality)),
        "mlflow_uri": "none",
    })  # fmt: skip


class Told:
    """Tells of each trial that ends."""

    def emit(self, event: Any) -> None:
        if event.type == "trial_complete":
            say(f"{event.trial}: {event.passed}", stream=sys.stderr, style="dim")


def made(config: SweepConfig) -> None:
    """Run what is missing of a sweep, and grade every state."""
    plan = prepare(config, resume=Path(config.out, "sweep.json").is_file())
    ended = sweep.run(plan, events=Told(), cluster=InProcess())
    for problem in ended.problems:
        say(f"note: {problem}", stream=sys.stderr, style="yellow")
    prepared = audit.prepare(config.out, AuditSettings(mutants=0, self_tests=False))
    audit.run(prepared, told=lambda line: say(line, stream=sys.stderr, style="dim"))


def made_in_memory(config: SweepConfig) -> MemoryStore:
    """The same trials in a world without sandboxes."""
    store = sweepdir.sweep()
    dev = sorted(name.rpartition("/")[2] for name in json.loads((DATASET / "split.json").read_text())["dev"])
    for name in dev[: config.limit]:
        instruction = (DATASET / name / "instruction.md").read_text()
        for seed in range(config.seeds):
            quality = Path(config.out).name
            asyncio.run(played_world.trial(store, name, instruction, quality, seed, config.solver, config.budget))
    return store


def found_in(store: Store) -> dict[str, Any]:
    """What the replay says of a sweep, and where the replay as run hands in something else than the trial did."""
    pools = read_pools(store, read_table=read_parquet)
    told = replay(store, None, read_table=read_parquet)
    graded = [pool for pool in pools if pool.graded]
    return {
        "trials": len(pools),
        "graded": len(graded),
        "not_graded": sorted({pool.task for pool in pools if not pool.graded}),
        "other_choice": [pool.trial for pool in pools if choose(pool, pool.selector or "mbr").chosen != pool.chosen],
        "states": sum(len(pool.attempts) for pool in graded),
        "lineages": sum(len({one.lineage for one in pool.attempts}) for pool in graded),
        "repaired": sum(any(one.repairs for one in pool.attempts) for pool in graded),
        "compared": sum(bool(pool.winners) for pool in graded),
        "disputed": sum(any(one.disputed for one in pool.rounds) for pool in graded),
        "weak": sum(not any(test.discriminates for test in pool.tests) for pool in graded),
        "mean": [row["mean"] for row in told["agents"]][-1],
        "oracle": [row["oracle"] for row in told["agents"]][-1],
        "ablations": [row for row in told["ablations"] if row["a"] in PARTS],
    }


def tell(quality: str, found: dict[str, Any]) -> None:
    """One quality as a table."""
    heading(f"Suites of quality {quality}: {QUALITIES[quality]}")
    say(
        f"{found['graded']} of {found['trials']} pools graded whole ({found['states']} states of {found['lineages']} "
        f"lineages; pools with repairs {found['repaired']}, a comparison {found['compared']}, disputed tests "
        f"{found['disputed']}, a weak suite {found['weak']}); not graded: {', '.join(found['not_graded']) or 'none'}"
    )
    say(f"the replay as run hands in another state in {len(found['other_choice'])} of {found['trials']} trials")
    say(f"a state drawn blindly {interval_of(found['mean'])}, the ceiling {interval_of(found['oracle'])}")
    rows = found["ablations"]
    whole = [("as run", *_counts(rows[0], "whole"), "")] if rows else []
    table(
        ("hc", "tasks", "trials", "pass rate", "minus as run", "better", "worse"),
        [(*one, "", "") for one in whole]
        + [(row["a"], *_counts(row, "blind_pass"), difference_text(row), row["only_a"], row["only_b"]) for row in rows],
    )


def _counts(row: dict[str, Any], name: str) -> tuple[int, int, str]:
    return row["tasks"], row["pairs"], interval_of(row[name])


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench lineages", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("-o", "--out", required=True, help="a folder; what is there is gone on with")
    parser.add_argument("-k", "--seeds", type=int, default=1)
    parser.add_argument("-l", "--tasks", type=int, help="at most so many tasks")
    parser.add_argument("-i", "--include", action="append", default=[], help="glob of task names")
    parser.add_argument("-n", "--concurrency", type=int, default=2)
    parser.add_argument("-q", "--quality", choices=tuple(QUALITIES), action="append", help="both by default")
    parser.add_argument("--in-memory", action="store_true", help="no sandboxes: see above")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what is there")
    given = parser.parse_args()
    os.environ["HC_PLAYED_DATASET"] = str(DATASET)
    for quality in given.quality or QUALITIES:
        config = config_of(given, quality)
        if not given.table and not given.in_memory:
            made(config)
        found = found_in(made_in_memory(config) if given.in_memory else SweepStore(config.out))
        Path(config.out).mkdir(parents=True, exist_ok=True)
        Path(config.out, "lineages-in-memory.json" if given.in_memory else "lineages.json").write_text(
            json.dumps(found, indent=1)
        )
        tell(quality, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
