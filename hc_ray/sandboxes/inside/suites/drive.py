"""Runs under the runner's Python inside a sandbox: one pytest run that drives every self-test of a suite.

    python3 hc_drive.py PLAN.json

A plan may bring several candidates (``variants``: files that are put into the workdir): every test is then run on each
of them, one candidate after the other, the workdir put back in between.

Each test is one pytest item, run ``repeats`` times, in its own child process, against the workdir exactly as the
candidate left it, plus the test's own files: what a test changed there is put back from a private copy before the next
one. (In place, because scripts name their files by absolute paths.) The report is JSON lines on the standard output
that this process was started with, a pipe that no child inherits; pytest and the tests write to standard error.
Standard library and pytest only.
"""

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from hc_ray.sandboxes.inside.suites.child import Workdir
    from hc_ray.sandboxes.inside.suites.driver import Driver
else:  # in a sandbox these modules lie side by side
    from hc_child import Workdir
    from hc_driver import Driver


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


def suite_plugin(plan: dict[str, Any], stages: Stages, report: io.TextIOBase) -> object:
    """The pytest plugin that collects the plan's file into one item per test."""
    import pytest

    class Item(pytest.Item):
        test: dict[str, Any]
        variant: str

        def runtest(self) -> None:
            failed, driver = None, stages.driver(self.variant)
            for turn in range(plan["repeats"]):
                result = driver.execute(self.test)
                report.write(json.dumps({"id": self.test["id"], "run": turn, "variant": self.variant, **result}) + "\n")
                report.flush()
                failed = failed or (result["detail"] if result["outcome"] != "pass" else None)
            if failed is not None:
                raise AssertionError(failed)

        def repr_failure(self, excinfo: Any, style: Any = None) -> str:
            return str(excinfo.value)

        def reportinfo(self) -> tuple[Path, int | None, str]:
            return self.path, None, self.name

    class File(pytest.File):
        def collect(self) -> Iterator[Item]:
            for variant in stages.variants:
                for test in plan["tests"]:
                    item = Item.from_parent(self, name=f"{variant}/{test['id']}" if variant else test["id"])
                    item.test, item.variant = test, variant
                    yield item

    class Plugin:
        def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> File | None:
            return File.from_parent(parent, path=file_path) if file_path.name == plan["name"] else None

    return Plugin()


def main(argv: Sequence[str]) -> int:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path = Path(argv[1]).resolve()
    plan = {**json.loads(path.read_text(encoding="utf-8")), "name": path.name}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    own = path.parent if os.access(path.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="t", dir=own) as scratch:
        stages = Stages(plan, Path(scratch), Driver)
        plugin = suite_plugin(plan, stages, report)
        options = ["-q", "--tb=line", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null"]
        code = pytest.main([*options, "--rootdir", str(path.parent), str(path)], plugins=[plugin])
        stages.close()
    report.write(json.dumps({"done": len(plan["tests"]), "exit": int(code)}) + "\n")
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
