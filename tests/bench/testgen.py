"""``scripts/bench testgen``: how good the self-tests of the starter's dev tasks are. Each tester writes a suite for
each task; the auditor judges it behind its wall: tests generated, parsed, admitted, seconds of engine a suite, the
share of usable suites, validity and fault detection before and after the gate with intervals, and what every selector
makes of a pool of the tester's own programs with the suite as written and as admitted.

    scripts/bench testgen --tester embedded --tasks 6
    scripts/bench testgen --tester embedded --out runs/bench-testgen

Every task is told as it is done and kept in the output folder; Ctrl-C and SIGTERM print the table so far, and the same
command with the same ``--out`` goes on. ``report.json`` there holds all figures.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hc_ray.domain.config import EngineConfig, SweepConfig
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of
from hc_ray.selftests.suite_writer import suite_key
from hc_ray_actors.jobs.testers import CLAUDE, missing_key
from tests.bench.quality.judging import Judge
from tests.bench.quality.making import Bench, candidates_of, matrix_of, opened, suite_of
from tests.bench.quality.sums import Record, line, summed, table

ENGINES: dict[str, dict[str, Any]] = {
    "embedded": {"kind": "embedded"},
    "claude": CLAUDE.model_dump(exclude_defaults=True),
}
NAMES = {"local": ("embedded",), "both": ("embedded", "claude")}
"""What ``hc-ray testgen --tester`` calls them."""


def config_of(tester: str, given: argparse.Namespace, out: Path) -> SweepConfig:
    """The settings of a tester's run."""
    engine = dict(ENGINES[tester])
    if given.threads and engine["kind"] == "embedded":
        engine["threads"] = given.threads
    return SweepConfig.model_validate(
        {
            "dataset": "starter",
            "agents": ("hc",),
            "limit": given.tasks,
            "include": tuple(given.include),
            "engine": engine,
            "sandbox": given.sandbox,
            "sandbox_slots": given.slots,
            "out": str(out / f"plan-{tester}"),
            "mlflow_uri": "none",
        }
    )


async def measure(tester: str, given: argparse.Namespace, out: Path) -> None:
    """Every task that is not kept yet."""
    until = time.monotonic() + given.seconds if given.seconds else None
    async with opened(config_of(tester, given, out)) as bench:
        judge, free = Judge(bench.plan, mutants=given.mutants), asyncio.Semaphore(given.parallel)

        async def one(task: Task) -> None:
            async with free:
                if until is not None and time.monotonic() > until:
                    return
                if (kept := read(out, tester, task.name)) is not None and fresh(kept, bench, task, given):
                    return
                record = await measured(tester, bench, judge, task, given)
                keep(out, record)
                print(line(record), file=sys.stderr, flush=True)

        async with asyncio.TaskGroup() as group:
            for task in bench.plan.taken:
                group.create_task(one(task))


async def measured(tester: str, bench: Bench, judge: Judge, task: Task, given: argparse.Namespace) -> Record:
    """One task from its instruction to the auditor's figures."""
    began = time.monotonic()
    suite, _, seconds = await suite_of(bench, task)
    # For whoever looks into a figure; a suite knows nothing of the real tests.
    place = place_of(Path(given.out), f"{tester}-suites", task.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(suite.model_dump_json(indent=1), encoding="utf-8")
    candidates = await candidates_of(bench, task, given.candidates)
    matrix = await matrix_of(bench, task, candidates, judge.named(suite, task))
    judged = await judge.judge(task, suite, matrix, candidates)
    unread = sum("does not parse" in verdict.reason for verdict in suite.gate)
    return Record(
        tester=tester,
        task=task.name,
        suite_key=suite.key,
        settings=settings(given),
        questions=suite.questions,
        malformed=suite.malformed,
        generated=len(suite.gate),
        parsed=len(suite.gate) - unread,
        admitted=len(suite.tests),
        judging=sum(test.expectation.kind != "unknown" for test in suite.tests),
        by_category=dict(Counter(test.category for test in suite.tests)),
        coverage=suite.covered,
        tokens=suite.prompt_tokens + suite.completion_tokens,
        engine_seconds=seconds["engine"],
        wall_seconds=seconds["wall"],
        bench_seconds=round(time.monotonic() - began, 2),
        candidates=len(candidates),
        judged=judged,
    )


def settings(given: argparse.Namespace) -> str:
    return digest_of([given.mutants, given.candidates, given.threads])


def fresh(kept: Record, bench: Bench, task: Task, given: argparse.Namespace) -> bool:
    """Whether what is kept was measured with the same questions and settings."""
    key = suite_key(task, bench.plan.config.solver, 0, bench.role)
    return kept.suite_key == key and kept.settings == settings(given)


def place_of(out: Path, tester: str, task: str) -> Path:
    return out / tester / f"{task.replace('/', '__')}.json"


def keep(out: Path, record: Record) -> None:
    place = place_of(out, record.tester, record.task)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(record.model_dump_json(indent=1), encoding="utf-8")


def read(out: Path, tester: str, task: str) -> Record | None:
    place = place_of(out, tester, task)
    return Record.model_validate_json(place.read_bytes()) if place.is_file() else None


def report(out: Path, testers: list[str], *, as_json: bool) -> None:
    """What is there so far: printed, and left in ``report.json``."""
    told: dict[str, Any] = {}
    for tester in testers:
        records = [Record.model_validate_json(path.read_bytes()) for path in sorted((out / tester).glob("*.json"))]
        told[tester] = (
            summed(records)
            if records
            else {"not_measured": missing_key(EngineConfig(**ENGINES[tester])) or "no task was finished"}
        )
    (out / "report.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    if as_json:
        print(json.dumps(told))
        return
    for tester, figure in told.items():
        print(table(tester, figure, str(figure.get("not_measured", ""))))
    print(f"all figures: {out / 'report.json'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench testgen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tester", action="append", choices=[*ENGINES, *NAMES], help="again for another; default: embedded"
    )
    parser.add_argument("--tasks", type=int, help="take at most so many tasks")
    parser.add_argument("--include", action="append", default=[], help="globs of task names")
    parser.add_argument("--sandbox", default="auto", choices=["auto", "docker", "bwrap"])
    parser.add_argument("--slots", type=int, help="sandboxes busy at once")
    parser.add_argument("--threads", type=int, help="of the embedded engine; 1 is faster where others use the cores")
    parser.add_argument("--parallel", type=int, default=2, help="tasks in work at once")
    parser.add_argument("--mutants", type=int, default=6, help="faults planted into a reference, at most")
    parser.add_argument("--candidates", type=int, default=4, help="programs of the tester's engine that are judged")
    parser.add_argument("--seconds", type=float, help="begin no further task of a tester after so many seconds")
    parser.add_argument("--out", help="where each task's figures are kept; given again, the bench goes on there")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.out = given.out or tempfile.mkdtemp(prefix="hc-bench-testgen-")
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    wanted = given.tester or ["embedded"]
    testers = list(dict.fromkeys(one for name in wanted for one in NAMES.get(name, (name,))))
    status = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the table of what is done
    try:
        for tester in testers:
            if not missing_key(EngineConfig(**ENGINES[tester])):
                asyncio.run(measure(tester, given, out))
    except KeyboardInterrupt:
        status = 130
    report(out, testers, as_json=given.json)
    return status


if __name__ == "__main__":
    sys.exit(main())
