"""Runs under the runner's Python inside a sandbox: drives every self-test of a suite.

    python3 hc_drive.py PLAN.json

A plan may bring several candidates (``variants``: files that are put into the workdir): every test is then run on each
of them, one candidate after the other, the workdir put back in between.

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

from hc_ray.sandboxes.inside.suites.child import Workdir
from hc_ray.sandboxes.inside.suites.driver import Driver

MYPY = False
if MYPY:
    import io
    from collections.abc import Callable
    from typing import Any


class Stages:
    """The candidates of a plan, one at a time: where it brings none, the workdir as it lies there."""

    def __init__(self, plan: dict[str, Any], scratch: Path, make: Callable[[dict[str, Any], Path], Driver]) -> None:
        self._plan, self._scratch, self._make = plan, scratch, make
        self.variants: dict[str, dict[str, Any]] = {one["name"]: one for one in plan.get("variants", ())} or {"": {}}
        self._base: Workdir | None = None
        self._current: tuple[str, Driver] | None = None
        self._count = 0

    def driver(self, name: str) -> Driver:
        """The driver of a candidate; that of the one before it is done with."""
        if self._current is None or self._current[0] != name:
            self.close()
            self._count += 1
            folder = self._scratch / str(self._count)
            folder.mkdir()
            self._put(self.variants[name])
            self._current = name, self._make(self._plan, folder)
        return self._current[1]

    def _put(self, variant: dict[str, Any]) -> None:
        if "files" not in variant:
            return
        if self._base is None:
            folder = self._scratch / "base"
            folder.mkdir()
            self._base = Workdir(self._plan["workdir"], folder)
        self._base.put(variant["files"])
        for path in variant["programs"]:
            self._base.place(path).chmod(0o755)

    def close(self) -> None:
        """Put the workdir back."""
        if self._current is not None:
            self._current[1].forks.close()
        if self._base is not None:
            self._base.restore()
        self._current = None


def run(plan: dict[str, Any], stages: Stages, report: io.TextIOBase) -> None:
    """Every test on every candidate. One that cannot be run at all is missing in the report, and the rest goes on."""
    for variant in stages.variants:
        for test in plan["tests"]:
            try:
                driver = stages.driver(variant)
                for turn in range(plan["repeats"]):
                    result = {"id": test["id"], "run": turn, "variant": variant, **driver.execute(test)}
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
        stages = Stages(plan, scratch, Driver)
        run(plan, stages, report)
        stages.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report.write(json.dumps({"done": len(plan["tests"])}) + "\n")
    report.close()


if __name__ == "__main__":
    main()
