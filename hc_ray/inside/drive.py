"""Runs under the runner's Python inside a sandbox: one pytest run that drives every self-test of a suite.

    python3 hc_drive.py PLAN.json

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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from hc_ray.inside.driver import Driver
else:  # in a sandbox these modules lie side by side
    from hc_driver import Driver


def suite_plugin(plan: dict[str, Any], driver: Driver, report: io.TextIOBase) -> object:
    """The pytest plugin that collects the plan's file into one item per test."""
    import pytest

    class Item(pytest.Item):
        test: dict[str, Any]

        def runtest(self) -> None:
            failed = None
            for turn in range(plan["repeats"]):
                result = driver.execute(self.test)
                report.write(json.dumps({"id": self.test["id"], "run": turn, **result}) + "\n")
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
            for test in plan["tests"]:
                item = Item.from_parent(self, name=test["id"])
                item.test = test
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

    with tempfile.TemporaryDirectory(prefix="t", dir=path.parent) as scratch:
        plugin = suite_plugin(plan, Driver(plan, Path(scratch)), report)
        options = ["-q", "--tb=line", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null"]
        code = pytest.main([*options, "--rootdir", str(path.parent), str(path)], plugins=[plugin])
    report.write(json.dumps({"done": len(plan["tests"]), "exit": int(code)}) + "\n")
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
