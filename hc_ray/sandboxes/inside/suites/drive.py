"""Runs under the runner's Python inside a sandbox: drives every self-test of a suite.

    hc_drive PLAN.json

Each test is run ``repeats`` times, in its own child process, against the workdir exactly as the
candidate left it, plus the test's own files: what a test changed there is put back from a private copy before the next
one. (In place, because scripts name their files by absolute paths.) The report is JSON lines on the standard output
that this process was started with, a pipe that no child inherits; the tests write to standard error. Standard library
only: to import pytest takes longer than most suites, so only checks, which are pytest functions, are run by it.
"""

# Started for every suite: what is slow to import (typing, tempfile) is left out, or imported where it is needed.

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from hc_ray.sandboxes.inside.suites.driver import Driver

MYPY = False
if MYPY:
    import io
    from typing import Any


def run(plan: dict[str, Any], driver: Driver, report: io.TextIOBase) -> None:
    """Every test. One that cannot be run at all is missing in the report, and the rest goes on."""
    for test in plan["tests"]:
        try:
            for turn in range(plan["repeats"]):
                result = {"id": test["id"], "run": turn, **driver.execute(test)}
                report.write(json.dumps(result) + "\n")
                report.flush()
        except Exception:
            import traceback

            traceback.print_exc()


def main() -> None:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path = Path(sys.argv[1]).resolve()
    plan = json.loads(path.read_text(encoding="utf-8"))
    own = path.parent if os.access(path.parent, os.W_OK) else Path("/tmp")
    scratch = own / f"t{os.urandom(4).hex()}"  # as ``domain.normalisation`` knows it
    scratch.mkdir(mode=0o700)
    try:
        driver = Driver(plan, scratch)
        run(plan, driver, report)
        driver.forks.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report.write(json.dumps({"done": len(plan["tests"])}) + "\n")
    report.close()
