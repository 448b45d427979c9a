"""``scripts/bench testgen``: how good the self-tests of the starter's dev tasks are. A sweep of ``hc`` makes them, the
auditor judges them behind its wall: tests generated, admitted, seconds of engine a task, the share of tasks with at
least ten tests, validity and fault detection before and after the gate with intervals.

    scripts/bench testgen --tester embedded --tasks 6
    scripts/bench testgen --tester strong
"""

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hc_ray import stats
from hc_ray.config import SweepConfig
from hc_ray.events import Event
from hc_ray.suite import Suite
from hc_ray.trust import reliability
from hc_ray_actors import audit, sweep
from hc_ray_actors.audit_subjects import AuditSettings
from hc_ray_actors.cluster import InProcess
from hc_ray_actors.plan import prepare

ENGINES: dict[str, dict[str, Any]] = {
    "embedded": {"kind": "embedded"},
    "strong": {"kind": "scripted", "script": "tests.fakes.strong_tester:answers"},
}
FIGURES = ("validity", "fault_detection", "triviality", "false_rejection", "overlap")
ENOUGH = 10
SECONDS = 60.0


class Quiet:
    """``ports.Events`` for a bench: nobody looks."""

    def emit(self, event: Event) -> None:
        pass


def swept(out: str, tester: str, tasks: int | None, include: tuple[str, ...], sandbox: str) -> None:
    """A sweep whose solver hardly searches: one round, so that suites are what it costs."""
    plan = prepare(
        SweepConfig.model_validate(
            {
                "dataset": "starter",
                "agents": ("hc",),
                "limit": tasks,
                "include": include,
                "engine": ENGINES[tester],
                "solver": {"max_rounds": 1},
                "sandbox": sandbox,
                "out": out,
                "mlflow_uri": "none",
            }
        )
    )
    sweep.run(plan, events=Quiet(), cluster=InProcess())


def counted(out: str) -> dict[str, Any]:
    """What the suites themselves tell."""
    suites = [Suite.model_validate_json(path.read_bytes()) for path in sorted(Path(out, "suites").glob("*.json"))]
    parsed = [len(suite.tests) + len(suite.dropped) for suite in suites]
    enough = [len(suite.tests) >= ENOUGH for suite in suites]
    quick = [suite.engine_seconds <= SECONDS for suite in suites]
    return {
        "suites": len(suites),
        "generated": sum(parsed),
        "admitted": sum(len(suite.tests) for suite in suites),
        "judging": sum(test.expectation.kind != "unknown" for suite in suites for test in suite.tests),
        "by_category": dict(Counter(test.category for suite in suites for test in suite.tests)),
        "engine_seconds": [round(suite.engine_seconds, 1) for suite in suites],
        "tokens": [suite.prompt_tokens + suite.completion_tokens for suite in suites],
        "covered": [suite.covered for suite in suites],
        "enough": stats.wilson(sum(enough), len(enough)).model_dump() if enough else None,
        "within_seconds": sum(quick) / len(quick) if quick else None,
        "fewest": sorted(len(suite.tests) for suite in suites)[:5],
    }


def estimated(out: str) -> dict[str, Any]:
    """What the pass matrices say of each category, without any label."""
    from hc_ray.adapters.sweep_store import SweepStore, read_parquet
    from hc_ray.suite import Cell, PassMatrix

    store, pools = SweepStore(out), []
    for path in sorted(Path(out, "trials").iterdir()):
        if not (path / "agent" / "matrix.parquet").is_file():
            continue
        suite = Suite.model_validate_json((path / "agent" / "suite.json").read_bytes())
        rows = read_parquet(store.read(f"trials/{path.name}/agent/matrix.parquet"))
        cells = {(row["candidate"], row["test"]): Cell(outcome=row["outcome"]) for row in rows}
        candidates = tuple(dict.fromkeys(row["candidate"] for row in rows))
        tests = tuple(test for test in suite.tests if all((one, test.id) in cells for one in candidates))
        matrix = PassMatrix(
            candidates=candidates,
            tests=tuple(test.id for test in tests),
            cells=tuple(tuple(cells[one, test.id] for test in tests) for one in candidates),
        )
        pools.append((matrix, tests))
    return {category: one.model_dump() for category, one in reliability(pools).items()}


def measure(tester: str, tasks: int | None, include: tuple[str, ...], sandbox: str, mutants: int) -> dict[str, Any]:
    """One tester on the dev tasks."""
    folder = tempfile.mkdtemp(prefix="hc-bench-")
    out = f"{folder}/out"
    try:
        began = time.perf_counter()
        swept(out, tester, tasks, include, sandbox)
        taken = time.perf_counter() - began
        summary, _ = audit.run(audit.prepare(out, AuditSettings(mutants=mutants)))
        stages = summary["whole"]
        whole = {stage: {name: stages[stage].get(name) for name in FIGURES} for stage in ("generated", "admitted")}
        return {
            "tester": tester, "seconds": round(taken, 1), **counted(out), "audit": whole, "gate": summary["gate"],
            "faults": summary["faults"], "reliability": estimated(out),
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def told(share: Any) -> str:
    """A share with its interval, for a reader."""
    if not isinstance(share, dict) or share.get("value") is None:
        return "not measured"
    low, high = share.get("low"), share.get("high")
    between = f" ({low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return f"{share['value']:.2f}{between}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench testgen", description=__doc__)
    parser.add_argument("--tester", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--mutants", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    testers = list(ENGINES) if given.tester == "both" else [given.tester]
    found = [measure(one, given.tasks, tuple(given.include), given.sandbox, given.mutants) for one in testers]
    if given.json:
        print(json.dumps(found))
        return
    for one in found:
        print(f"{one['tester']}: {one['suites']} suites in {one['seconds']} s; {one['generated']} tests, "
              f"{one['admitted']} admitted, {one['judging']} of them judge")  # fmt: skip
        print(f"  tasks with at least {ENOUGH} tests: {told(one['enough'])}")
        print(f"  engine seconds of each suite: {one['engine_seconds']}")
        for stage, shares in one["audit"].items():
            print(f"  {stage}: " + "; ".join(f"{name} {told(share)}" for name, share in shares.items()))


if __name__ == "__main__":
    main()
