"""Tasks of the terminal dataset, in every sandbox that takes them: the reference passes and doing nothing fails. Three
wrong solutions a task (``tests/terminal_wrong/TASK``: a script, or a patch that makes the reference wrong), run where
the reference would have been, fail too; they try the tests, so one kind of sandbox is enough. One task each time, all
of them as a proof, since they take minutes."""

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.blind.grading import control
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.domain.candidate import Submission
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from tests.fakes.sandbox_home import closing, sealed_in
from tests.fakes.terminal_tasks import DATASET, NAMES, builds_an_image

WRONG = Path(__file__).parents[1] / "terminal_wrong"
EACH_TIME = ("bwrap", "tidy-site-tree")
SECONDS = 600.0
AT_ONCE = 3
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sealed() -> Iterator[tuple[Path, vault.SealedDataset]]:
    with sealed_in(DATASET) as made:
        yield made


def test_no_task_is_refused_and_each_has_three_wrong_solutions(sealed):
    _, dataset = sealed
    assert dataset.refused == () and sorted(task.name.rpartition("/")[2] for task in dataset.tasks) == NAMES
    for name in NAMES:
        assert sorted(way.stem for way in (WRONG / name).iterdir()) == ["1", "2", "3"]


def script(wrong: Path) -> bytes:
    """What is run for a wrong solution."""
    if wrong.suffix == ".sh":
        return wrong.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        solved = Path(folder, "solve.sh")
        solved.write_bytes((DATASET / wrong.parent.name / "solution/solve.sh").read_bytes())
        subprocess.run(["git", "apply", str(wrong)], cwd=folder, check=True)
        return solved.read_bytes()


async def submitted(task: Task, wrong: Path, place: SandboxPlace) -> Submission:
    """What a wrong solution changes in a fresh sandbox."""
    sandbox = await place.create(task, f"wrong-{wrong.stem}-{task.digest[:12]}")
    try:
        await sandbox.put({"/tmp/wrong.sh": script(wrong)}, mode=0o755)
        await sandbox.exec(["bash", "/tmp/wrong.sh"], timeout=SECONDS)
        difference = await sandbox.difference()
    finally:
        await sandbox.close()
    return control.make_submission(task, difference.tar, f"wrong-{wrong.stem}")


@pytest.mark.parametrize(("backend", "name"), [
    pytest.param(backend, name, marks=[*marks, *(() if (backend, name) == EACH_TIME else [pytest.mark.proof])])
    for backend, marks in (("bwrap", ()), ("docker", [pytest.mark.docker]))
    for name in NAMES
    if backend == "docker" or not builds_an_image(name)
])  # fmt: skip
async def test_the_reference_passes_and_what_is_wrong_or_untouched_fails(sealed, backend, name):
    folder, dataset = sealed
    (task,) = [task for task in dataset.tasks if task.name.rpartition("/")[2] == name]
    wrong = sorted((WRONG / name).iterdir()) if backend == "bwrap" or builds_an_image(name) else []
    turn = asyncio.Semaphore(AT_ONCE)
    async with closing(backend, folder / "public") as place:
        common = {"sealed_root": folder / "sealed", "place": place}

        async def verdict(way: Path | None) -> Verdict:
            async with turn:
                return await grade(task, way and await submitted(task, way, place), **common)

        async def reference() -> Verdict:
            async with turn:
                return await grade(task, await control.reference(task, **common), **common)

        solved, *failed = await asyncio.gather(reference(), *map(verdict, [None, *wrong]))
    assert (solved.passed, solved.witness) == (True, "agrees")
    assert [way for way, one in zip([None, *wrong], failed, strict=True) if one.passed is not False] == []
