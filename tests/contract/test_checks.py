from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.prompt import Completion
from hc_ray.domain.suite import Cell, ExpectedValue, Property, SelfTest, Subject
from hc_ray.selftests import file_tester
from hc_ray.selftests.runner import SuiteRuns
from hc_ray.spec.spec import Spec
from tests.fakes.contract_task import TASK
from tests.fakes.suites import call_test

SPEC = Spec(instruction="Double each line of data.txt in place.", workdir="/app")
DOUBLE = {"double.py": "def double(n):\n    return n * 2\n"}
ANSWER = '''```python
from pathlib import Path


def test_each_line_is_doubled():
    """happy_path | "Double each line of data.txt in place." """
    before = Path("/tmp/before/data.txt").read_text().split()
    assert Path("data.txt").read_text().split() == [line * 2 for line in before]
```

```sh
#!/bin/sh
# test_no_line_is_lost: boundary | "Double each line of data.txt in place."
[ "$(wc -l < data.txt)" -eq "$(wc -l < /tmp/before/data.txt)" ] || { echo "lines were lost"; exit 1; }
```
'''


@pytest.fixture
async def forks(place: SandboxPlace) -> AsyncIterator[SandboxForks]:
    made = SandboxForks(place, TASK, "suites")
    yield made
    await made.close()


@pytest.fixture
def runs(forks: SandboxForks) -> SuiteRuns:
    return SuiteRuns(forks)


def written(answer: str) -> tuple[SelfTest, ...]:
    return file_tester.read(Completion(text=answer), SPEC).tests


def outcomes(cells: Sequence[Cell]) -> list[str]:
    return [cell.outcome for cell in cells]


async def test_a_suite_runs_in_a_fork_and_leaves_no_trace_in_what_is_handed_in(runs, forks):
    double = {"path": "double.py"}
    tests = [call_test("a", "double(4)", "8", **double), call_test("b", "double('x')", None, **double),
             call_test("c", "double(4)", "9", **double),
             SelfTest(id="d", category="format", subject=Subject(kind="file", path="double.py"),
                      expectation=Property(name="compiles")),
             SelfTest(id="e", category="happy_path", subject=Subject(kind="command", path="say.sh"), input="'a b'",
                      expectation=ExpectedValue(value="a b"))]  # fmt: skip
    files = {"double.py": "def double(n):\n    open('left.txt', 'w').write('x')\n    return n * 2\n",
             "say.sh": '#!/bin/sh\necho "$1"\n'}  # fmt: skip
    cells = await runs.try_out("c1.0", files, tests)
    assert outcomes(cells) == ["pass", "pass", "fail", "pass", "pass"], cells
    assert cells[1].observed == "'xx'"
    untouched = await runs.repeat("gate", {}, tests, repeats=3)
    assert all(outcomes(cells) == ["error"] * 3 for cells in untouched)
    difference, _ = await forks.hand_in("submission", files)
    assert {Path(path).name for path in difference.changed} >= {"double.py", "say.sh"}
    assert not [path for path in difference.changed if "left" in path or "hc" in path]


async def test_checks_read_the_workdir_as_it_was_and_may_be_shell_scripts(runs: SuiteRuns) -> None:
    right = await runs.try_out("right", {"data.txt": "oneone\n"}, written(ANSWER))
    wrong = await runs.try_out("wrong", {"data.txt": ""}, written(ANSWER))
    assert outcomes(right) == ["pass", "pass"], right
    assert outcomes(wrong) == ["fail", "fail"] and "lines were lost" in wrong[1].detail


ENDS = '''```python
def test_ends_without_a_word():
    """boundary | "Double each line of data.txt in place." """
    import os, sys
    print("No module named pytest", file=sys.stderr, flush=True)
    os._exit(1)


def test_runs_where_the_task_does():
    """happy_path | "Double each line of data.txt in place." """
    import sys
    assert not sys.executable.startswith("/.hc"), "the task has a Python of its own"
```
'''


async def test_a_check_that_ends_its_interpreter_does_not_move_the_others_to_another(runs: SuiteRuns) -> None:
    ended, other = await runs.try_out("ends", {}, written(ENDS))
    (alone,) = await runs.try_out("alone", {}, written(ENDS)[1:])
    assert ended.outcome in ("fail", "error") and other.outcome == alone.outcome


STAYS = """```sh
#!/bin/sh
# test_that_leaves_a_daemon: happy_path | "Double each line of data.txt in place."
setsid sleep 4712 </dev/null >/dev/null 2>&1 &
sleep 0.2
```

```sh
#!/bin/sh
# test_that_looks_for_it: boundary | "Double each line of data.txt in place."
for one in /proc/[0-9]*; do
    [ "$(tr '\\0' ' ' < $one/cmdline)" != "sleep 4712 " ] || { echo "it still runs"; exit 1; }
done
```
"""


async def test_no_check_meets_a_daemon_that_another_one_left(runs: SuiteRuns) -> None:
    before, after = (call_test(name, "double(4)", "8", path="double.py") for name in "ab")
    cells = await runs.try_out("stays", DOUBLE, [before, *written(STAYS), after])
    assert outcomes(cells) == ["pass"] * 4, cells


SPOILS = """```sh
# test_that_spoils: happy_path | "Double each line of data.txt in place."
grep -q made /tmp/result.txt && rm /tmp/result.txt && mkdir /tmp/more && echo x >> /srv/kept.txt
```

```sh
# test_that_looks: boundary | "Double each line of data.txt in place."
grep -q made /tmp/result.txt && [ ! -e /tmp/more ] && [ "$(cat /srv/kept.txt)" = kept ]
```
"""


async def test_files_elsewhere_that_checks_name_are_put_back_after_each(runs: SuiteRuns) -> None:
    files = {"/tmp/result.txt": "made\n", "/srv/kept.txt": "kept\n"}
    cells = await runs.try_out("spoils", files, [*written(SPOILS), *written(SPOILS)[::-1]])
    assert outcomes(cells) == ["pass"] * 4, cells


CLEAN = '''```python
def test_leaves_what_it_can():
    """boundary | "Double each line of data.txt in place." """
    import atexit, builtins, double, os, random, sys
    builtins.left, os.environ["LEFT"], double.left = 1, "1", 1
    sys.path.insert(0, "/nowhere")
    os.chdir("/")
    atexit.register(lambda: open("/tmp/" + "told", "w").write(str(random.random())))


def test_begins_as_the_first_did():
    """happy_path | "Double each line of data.txt in place." """
    import builtins, double, os, random, sys
    assert double.double(2) == 4 and not hasattr(double, "left") and not hasattr(builtins, "left")
    assert "LEFT" not in os.environ and "/nowhere" not in sys.path and os.getcwd() == "/app"
    with open("/tmp/" + "told") as told:
        assert told.read() not in ("", str(random.random()))
```
'''


async def test_each_check_begins_in_a_python_in_which_no_other_ran(runs: SuiteRuns) -> None:
    cells = await runs.try_out("clean", DOUBLE, written(CLEAN))
    assert outcomes(cells) == ["pass"] * 2, cells
