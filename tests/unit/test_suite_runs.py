from collections.abc import Mapping

import pytest

from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.suite import SelfTest, Subject, Unknown
from hc_ray.domain.task import Environment, Task
from hc_ray.selftests.suite_runs import SuiteRuns
from tests.fakes.folder_place import FolderPlace, FolderSandbox

TASK = Task(name="t", digest="0" * 64, instruction="x", environment=Environment())
CALL = SelfTest(id="a", category="happy_path", subject=Subject(kind="call", path="m.py", function="f"), input="f(1)",
                expectation=Unknown())  # fmt: skip


def runs() -> tuple[FolderPlace, SuiteRuns]:
    place = FolderPlace({"m.py": "def f(x):\n    return 0\n"}, quick=True)
    return place, SuiteRuns(SandboxForks(place, TASK, "trial"))


def answer(value: int) -> dict[str, str]:
    return {"m.py": f"def f(x):\n    return {value}\n"}


async def test_every_test_runs_so_often_in_a_fork_of_its_own_and_in_none_without_tests():
    place, suite = runs()
    assert await suite.repeat("c", {}, [], repeats=3) == () and not place.made
    (cells,) = await suite.repeat("c", answer(7), [CALL], repeats=3)
    assert [cell.observed for cell in cells] == ["7"] * 3
    assert [sandbox.closed for sandbox in place.made] == [False, True], "the base stays, the fork goes"
    await suite.forks.close()


async def test_what_cannot_be_written_is_the_candidate_s_fault_in_every_test(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(self: FolderSandbox, files: Mapping[str, bytes], *, mode: int = 0) -> None:
        if answer(1)["m.py"].encode() in files.values():
            raise ValueError("m.py is a folder")

    monkeypatch.setattr(FolderSandbox, "put", refuses)
    place, suite = runs()
    cells = await suite.try_out("c", answer(1), [CALL, CALL.model_copy(update={"id": "b"})])
    assert [cell.outcome for cell in cells] == ["error"] * 2 and "m.py is a folder" in cells[0].detail
    assert [sandbox.closed for sandbox in place.made] == [False, True]
    await suite.forks.close()
