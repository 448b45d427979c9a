"""``scripts/bench solve``: what search is worth. A sweep of raw, best_of_n and hc over the starter's dev tasks with the
embedded model, an audit that grades every candidate behind the wall, and the table from a replay at equal tokens: blind
pass rates with intervals, each selector, the ceiling of the pools and how much of it selection reaches, tokens and time
a pass, paired differences, passes that no sample has, ablations on the stored matrices.

    scripts/bench solve -o runs/solve --seeds 3
    scripts/bench solve -o runs/crashes --set solver.feedback=crashes --against runs/solve

The directory is a sweep's, so that the same command goes on where it was broken off (Ctrl-C, SIGTERM). It never runs on
the holdout."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from hc_ray.cli.text import tell_plan
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError, HcRayError
from hc_ray.reports import terminal
from hc_ray.reports.audit_section import AUDIT_FILE
from hc_ray.reports.page import interval_of
from hc_ray.reports.progress import clock
from hc_ray.reports.replay import Pool, read_pools
from hc_ray.reports.replay_figures import replay
from hc_ray.reports.replay_text import tell_replay
from hc_ray.reports.terminal import say
from hc_ray.statistics import estimators
from hc_ray.stores.sweep_directory import SweepStore, read_parquet
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.driver import sweep
from hc_ray_actors.driver.plan import Plan, prepare
from hc_ray_actors.jobs import audit
from hc_ray_actors.jobs.audit_subjects import AuditSettings

GRADE_SECONDS = 1.5
"""One candidate looked at by the audit, assumed until a sweep's own gradings tell."""
FILE = "solve.json"


def config_of(given: argparse.Namespace) -> SweepConfig:
    """The sweep that is asked for. Raises ``ConfigError`` for a setting that does not exist."""
    settings: dict[str, Any] = {
        "dataset": given.path,
        "split": "dev",
        "agents": tuple(given.agent or ("raw", "best_of_n", "hc")),
        "seeds": given.seeds,
        "limit": given.tasks,
        "include": tuple(given.include),
        "sandbox": given.sandbox,
        "concurrency": given.concurrency,
        "out": given.out,
        "mlflow_uri": "none",
    }
    for one in given.set:
        name, equals, value = one.partition("=")
        if not equals:
            raise ConfigError(f"--set {one}: give it as name=value, as in solver.feedback=crashes")
        *folders, last = name.split(".")
        place = settings
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = yaml.safe_load(value)
    if settings["split"] != "dev":
        raise ConfigError("scripts/bench solve runs on dev tasks alone")
    try:
        return SweepConfig.model_validate(settings)
    except ValueError as fault:
        raise ConfigError(str(fault)) from None


def tell_estimate(plan: Plan) -> None:
    """What the whole will take, before anything is started."""
    tell_plan(plan)
    missing = len(plan.trials) - plan.done
    solver, budget = plan.config.solver, plan.config.budget
    # A candidate takes a prompt and an answer of at most the limit: that is how many a budget holds at least.
    most = min(solver.max_turns, budget.tokens // 300)
    grades = sum(1 if key.agent == "raw" else most for key in plan.trials)
    sweeping = plan.estimated_seconds or 0.0
    say(f"{missing} trials to run; the sweep at most about {clock(sweeping)}, then an audit of at most {grades} "
        f"candidates, about {clock(grades * GRADE_SECONDS)}", style="bold")  # fmt: skip


def run(plan: Plan, *, with_ray: bool) -> sweep.SweepSummary:
    """The missing trials of the sweep."""
    progress = terminal.Progress(
        len(plan.trials), done=plan.done, estimated_seconds=plan.estimated_seconds, stream=sys.stderr
    )
    with progress:
        return sweep.run(plan, events=progress, cluster=None if with_ray else InProcess())


def graded(out: str) -> bool:
    """Whether the stored audit knows every trial of the sweep."""
    try:
        known = json.loads(SweepStore(out).read(AUDIT_FILE))["trials"]
    except (FileNotFoundError, ValueError, KeyError):
        return False
    return bool(known == len(SweepStore(out).finished()))


def grade(out: str) -> None:
    """Every candidate's real verdict, without the self-tests' quality (plain ``hc-ray audit`` has that); what an audit
    that was broken off has looked at is looked up."""
    prepared = audit.prepare(out, AuditSettings(mutants=0, self_tests=False))
    about = "" if prepared.seconds is None else f", about {clock(prepared.seconds)}"
    say(f"audit: at most {prepared.sandboxes} sandboxes{about}", stream=sys.stderr, style="dim")
    audit.run(prepared, told=lambda line: say(line, stream=sys.stderr, style="dim"))


def table(out: str) -> dict[str, Any]:
    """The replay of a sweep directory, each trial's own choice standing for ``hc``."""
    return replay(SweepStore(out), None, read_table=read_parquet)


def against(out: str, other: str) -> dict[str, Any]:
    """``hc`` here minus ``hc`` there, by its first verdicts on common tasks and seeds: an ablation that needs new
    samples."""
    sides = []
    for place in (out, other):
        pools = read_pools(SweepStore(place), read_table=read_parquet)
        sides.append({pool.key: pool for pool in pools if pool.agent == "hc"})
    common = sorted(set(sides[0]) & set(sides[1]))
    outcomes = [_by_task({key: side[key] for key in common}) for side in sides]
    return {
        "pairs": len(common),
        **estimators.paired(*outcomes).model_dump(),
        "ratio": estimators.ratio(*outcomes).model_dump(),
        "tokens": [sum(side[key].tokens or 0 for key in common) for side in sides],
    }


def tell_against(one: dict[str, Any], other: str) -> None:
    """In one sentence."""
    said = "not measured"
    if one["delta"] is not None:
        said = f"{one['delta']:+.2f} [{one['low']:+.2f}, {one['high']:+.2f}], p {one['p']:.3f}"
    here, there = one["tokens"]
    say(f"\nhc here minus hc in {other}: {said}; ratio {interval_of(one['ratio'])}; {one['pairs']} pairs, "
        f"{here:,} and {there:,} tokens")  # fmt: skip


def _by_task(pools: dict[tuple[str, int], Pool]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for (task, _), pool in sorted(pools.items()):
        found.setdefault(task, []).append(float(bool(pool.passed)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench solve", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("-o", "--out", required=True, help="the sweep directory; one that is there is gone on with")
    parser.add_argument("-p", "--path", default="starter", help="the dataset")
    parser.add_argument("-k", "--seeds", type=int, default=3)
    parser.add_argument("-l", "--tasks", type=int, help="at most so many tasks")
    parser.add_argument("-i", "--include", action="append", default=[], help="glob of task names")
    parser.add_argument("-a", "--agent", action="append", help="raw, best_of_n, hc; all by default")
    parser.add_argument("-n", "--concurrency", type=int)
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, dotted")
    parser.add_argument("--against", metavar="OUT", help="compare hc with that of another directory")
    parser.add_argument("--ray", action="store_true", help="over Ray, as hc-ray sweep does; else in this process")
    parser.add_argument("--dry-run", action="store_true", help="show what it would take, and stop")
    parser.add_argument("--table", action="store_true", help="run nothing: the table of what is there")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        return _bench(given)
    except HcRayError as fault:
        say(str(fault), stream=sys.stderr, style="red")
        return 2


def _bench(given: argparse.Namespace) -> int:
    if not given.table:
        plan = prepare(config_of(given), resume=Path(given.out, "sweep.json").is_file())
        if not given.json:
            tell_estimate(plan)
        if given.dry_run:
            return 0
        ended = run(plan, with_ray=given.ray)
        for problem in ended.problems:
            say(f"note: {problem}", stream=sys.stderr, style="yellow")
        if ended.interrupted or ended.stopped:
            say("not finished: the same command goes on", stream=sys.stderr, style="yellow")
            return 130 if ended.interrupted else 3
        try:
            if not graded(given.out):
                grade(given.out)
        except KeyboardInterrupt:
            say("the audit is not finished: the same command goes on", stream=sys.stderr, style="yellow")
            return 130
    found = table(given.out)
    if given.against:
        found["against"] = against(given.out, given.against)
    SweepStore(given.out).write(FILE, json.dumps(found, indent=1).encode())
    if given.json:
        print(json.dumps(found))
        return 0
    tell_replay(found)
    if given.against:
        tell_against(found["against"], given.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
