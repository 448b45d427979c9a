import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.suite import ExpectedValue, Property, SelfTest, Subject
from hc_ray.domain.task import Environment, Task
from hc_ray.selftests.suite_runs import SuiteRuns
from tests.fakes.sandbox_home import BACKENDS, laid_out, opened
from tests.fakes.suites import call_test

INSTRUCTION = "Write `/app/double.py` with `def double(n: int) -> int` that returns twice n. `double(4)` returns `8`."
TEXT = "FROM python:3.11-slim-bookworm\nWORKDIR /app\n"
TASK = Task(name="double", digest=hashlib.sha256(INSTRUCTION.encode()).hexdigest(), instruction=INSTRUCTION,
            environment=Environment(dockerfile=TEXT, base="python:3.11-slim-bookworm"))  # fmt: skip


@pytest.fixture(scope="module", params=BACKENDS)
def place(request: pytest.FixtureRequest) -> Iterator[SandboxPlace]:
    with laid_out(TASK) as root, opened(request.param, root) as one:
        yield one


def call(identity: str, text: str, value: str | None) -> SelfTest:
    return call_test(identity, text, value, path="double.py")


async def test_a_suite_runs_in_a_fork_and_leaves_no_trace_in_what_is_handed_in(place: SandboxPlace) -> None:
    forks = SandboxForks(place, TASK, "suite")
    bench = SuiteRuns(forks)
    tests = [call("a", "double(4)", "8"), call("b", "double('x')", None), call("c", "double(4)", "9"),
             SelfTest(id="d", category="format", subject=Subject(kind="file", path="double.py"),
                      expectation=Property(name="compiles")),
             SelfTest(id="e", category="happy_path", subject=Subject(kind="command", path="say.sh"), input="'a b'",
                      expectation=ExpectedValue(value="a b"))]  # fmt: skip
    files = {"double.py": "def double(n):\n    open('left.txt', 'w').write('x')\n    return n * 2\n",
             "say.sh": '#!/bin/sh\necho "$1"\n'}  # fmt: skip
    try:
        cells = await bench.try_out("c1.0", files, tests)
        assert [cell.outcome for cell in cells] == ["pass", "pass", "fail", "pass", "pass"], cells
        assert cells[1].observed == "'xx'"
        untouched = await bench.repeat("gate", {}, tests, repeats=3)
        assert all([cell.outcome for cell in runs] == ["error"] * 3 for runs in untouched)
        difference, _ = await forks.hand_in("submission", files)
        assert {Path(path).name for path in difference.changed} >= {"double.py", "say.sh"}
        assert not [path for path in difference.changed if "left" in path or "hc" in path]
    finally:
        await forks.close()
