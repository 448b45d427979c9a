"""``scripts/bench driver``: what orchestration itself costs. With an engine that answers at once and sandboxes that run
nothing: candidates a second of a whole sweep (journal, results, report, tables) through Ray's actors, and the processor
time and the memory that it takes along the way. Beside that, how long a resume takes to find out what is left to do.

    scripts/bench driver --candidates 100000
    scripts/bench driver --resume 100000
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from hc_ray.domain.candidate import Submission
from hc_ray.domain.events import Event
from hc_ray.domain.value import readable_json
from hc_ray.machine.processor_use import Own, ProcessorMeter
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.driver import results, sweep, trial_files
from hc_ray_actors.driver.trial_record import Record
from tests.bench import null_world
from tests.fakes.processes import family, named
from tests.fakes.sandbox_home import open_folder, own_home
from tests.fakes.tasks import make_task
from tests.fakes.trial import INSTRUCTION

GOAL = 300.0
MARKS = 10
"""How often it is looked at on the way."""
TASKS = 10
"""Of the sweep that is resumed."""
OURS = ("driver", "actor", "Ray")


class Look(NamedTuple):
    """What a look at this process and its actors finds."""

    candidates: int
    at: float
    driver: float
    """MiB that lie in memory."""
    trials: float | None
    """The same of the trials' actor; None before it stands."""
    used: Counter[str]
    """Processor seconds since the last look, by kind of process; those of others on this machine are left out."""


class Meter:
    """``ports.Events`` that counts candidates, and looks after equal parts of them."""

    def __init__(self, candidates: int, own: Own = tuple) -> None:
        self.candidates = self.trials = 0
        self._step = max(1, candidates // MARKS)
        self._processors = ProcessorMeter(own=own)
        self.looks: list[Look] = []

    def emit(self, event: Event) -> None:
        if event.type == "trial_start" and not self.looks:
            self.look()
        if event.type == "verify_complete":
            self.candidates += 1
            if self.candidates % self._step == 0:
                self.look()
        self.trials += event.type == "trial_complete"

    def look(self) -> None:
        used = Counter({kind: seconds for kind, seconds in self._processors.since().items() if kind.startswith(OURS)})
        trials = next(map(resident, named(family(os.getpid()), "ray::Trials")), None)
        self.looks.append(Look(self.candidates, time.perf_counter(), resident(os.getpid()), trials, used))


def resident(pid: int) -> float:
    """MiB of a process that lie in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def measure(total: int, candidates: int, at_once: int) -> dict[str, Any]:
    """``total``: candidates in all; ``candidates``: of each trial; ``at_once``: trials in flight."""
    count = max(1, total // candidates)
    with open_folder() as folder, mock.patch.dict(os.environ, HC_RAY_HOME=str(folder / "home")):
        (folder / "home").mkdir()
        cluster = null_world.NullRay()
        meter = Meter(total, cluster.processes)
        began = time.perf_counter()
        plan = null_world.plan_of(folder / "out", count, candidates, at_once)
        try:
            ended = sweep.run(plan, events=meter, cluster=cluster)
        finally:
            cluster.close()
        if ended.done != count or ended.unscored:
            raise RuntimeError(f"{ended.done} of {count} trials, {ended.unscored} unscored: {ended.problems}")
        seconds = time.perf_counter() - began
    first, last = meter.looks[0], meter.looks[-1]
    used = sum((look.used for look in meter.looks[1:]), Counter[str]())
    return {
        "candidates": meter.candidates,
        "trials": meter.trials,
        "seconds": seconds,
        "per_second": last.candidates / (last.at - first.at),
        "per_processor_second": last.candidates / sum(used.values()),
        "milliseconds": {kind: 1000 * spent / last.candidates for kind, spent in used.items()},
        "memory": [(look.candidates, look.driver, look.trials) for look in meter.looks],
        "memory_after": resident(os.getpid()),
    }


def resume(trials: int) -> dict[str, float]:
    """Seconds that it takes to find out what is left to do of a sweep whose trials are all there. Each is as the driver
    writes it, but for the disk, which is not waited for; they differ in their keys alone."""
    with open_folder() as folder, own_home():
        for number in range(TASKS):
            make_task(folder / "tasks", f"t{number}", instruction=f"Task {number}.\n{INSTRUCTION}")
        seeds = max(1, trials // TASKS)
        tasks = str(folder / "tasks")
        config = null_world.config_of(folder / "out", 8, dataset=tasks, seeds=seeds, sandbox="bwrap")
        with mock.patch("os.fsync"):
            fabricate(sweep.prepare(config))
        began = time.perf_counter()
        plan = sweep.prepare(config, resume=True)
        return {
            "trials": len(plan.trials),
            "left": len(plan.trials) - plan.done,
            "seconds": time.perf_counter() - began,
        }


def fabricate(plan: sweep.Plan) -> None:
    """Commit a result for every trial of a plan: of each the files that a resume looks at."""
    store, handed = SweepStore(plan.out), list[Submission]()

    async def judge(submission: Submission) -> bool:
        handed.append(submission)
        return False

    results.write_sweep(store, plan, 0)
    outcome = asyncio.run(null_world.trial(plan.taken[0], 8, judge, Meter(1)))
    for key in plan.trials:
        record = Record(key, plan.taken[0], plan, null_world.LIMITS)
        record.submitted(handed[0], outcome)
        record.judged(null_world.FAILED)
        found = {"config.json": readable_json(key.model_dump(mode="json")),
                 "result.json": record.result().model_dump_json(indent=1).encode()}  # fmt: skip
        trial_files.commit(store, record, {"agent/suite.json": b"", **found} if key is plan.trials[0] else found)


def growth(memory: list[float]) -> float:
    """MiB more at the end than at half way: what a longer run would go on to take."""
    return memory[-1] - memory[len(memory) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench driver", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--candidates", type=int, default=10_000, help="in all")
    parser.add_argument("--each", type=int, default=80, help="candidates of a trial")
    parser.add_argument("--at-once", type=int, default=4, help="trials that are in flight")
    parser.add_argument("--resume", type=int, metavar="TRIALS", help="only time a resume over so many finished trials")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.resume:
        print(json.dumps(resume(given.resume)))
        return
    found = measure(given.candidates, given.each, given.at_once)
    if given.json:
        print(json.dumps(found))
        return
    print(
        f"{found['candidates']} candidates of {found['trials']} trials in {found['seconds']:.1f} s: "
        f"{found['per_second']:.0f} a second (goal {GOAL:.0f}), {found['per_processor_second']:.0f} a core; "
        "milliseconds of a candidate: " + ", ".join(f"{kind} {ms:.2f}" for kind, ms in found["milliseconds"].items())
    )
    _, *columns = zip(*found["memory"], strict=True)
    for kind, column in zip(("driver", "trials"), columns, strict=True):
        if seen := [mib for mib in column if mib is not None]:
            print(f"resident MiB of the {kind}: {', '.join(f'{mib:.0f}' for mib in seen)}; "
                  f"{growth(seen):+.1f} in the second half")  # fmt: skip
    print(f"resident MiB of the driver at the end: {found['memory_after']:.0f}")


if __name__ == "__main__":
    main()
