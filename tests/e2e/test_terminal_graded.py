"""Tasks of the terminal dataset, in every sandbox that takes them: the reference passes, doing nothing fails, and so
does each of three wrong solutions (``tests/terminal_wrong/TASK/*.sh``), run where the reference would have been. One
task each time; all of them as a proof, since they take minutes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.blind.grading import control
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.domain.candidate import Submission
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.machine.paths import configs_dir
from tests.fakes.sandbox_home import closing, data_home

DATASET = configs_dir() / "tasks" / "terminal"
WRONG = Path(__file__).parents[1] / "terminal_wrong"
NAMES = sorted(path.parent.name for path in DATASET.glob("*/task.toml"))
EACH_TIME = ("bwrap", "tidy-site-tree")
SECONDS = 600.0
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sealed() -> Iterator[tuple[Path, vault.SealedDataset]]:
    with data_home():
        folder = Path(tempfile.mkdtemp(prefix="hc-terminal-"))
        folder.chmod(0o755)
        yield folder, vault.seal(DATASET, folder / "public", folder / "sealed")
        shutil.rmtree(folder, ignore_errors=True)


def test_no_task_is_refused_and_each_has_three_wrong_solutions(sealed):
    _, dataset = sealed
    assert dataset.refused == () and sorted(task.name.rpartition("/")[2] for task in dataset.tasks) == NAMES
    for name in NAMES:
        scripts = sorted((WRONG / name).iterdir())
        assert [script.name for script in scripts] == ["1.sh", "2.sh", "3.sh"]
        # The first line, after a possible interpreter line, says what is wrong.
        lines = [next(line for line in script.read_text().splitlines() if line[:2] != "#!") for script in scripts]
        assert all(line.startswith("# ") for line in lines)


async def submitted(task: Task, script: Path, place: SandboxPlace) -> Submission:
    """What a script changes in a fresh sandbox."""
    sandbox = await place.create(task, f"wrong-{script.stem}-{task.digest[:12]}")
    try:
        await sandbox.put({"/tmp/wrong.sh": script.read_bytes()}, mode=0o755)
        await sandbox.exec(["bash", "/tmp/wrong.sh"], timeout=SECONDS)
        difference = await sandbox.difference()
    finally:
        await sandbox.close()
    return control.make_submission(task, difference.tar, f"wrong-{script.stem}")


def builds_an_image(name: str) -> bool:
    """Whether a task's Dockerfile runs commands: bubblewrap builds no images."""
    return "\nRUN " in (DATASET / name / "environment" / "Dockerfile").read_text()


@pytest.mark.parametrize(("backend", "name"), [
    pytest.param(backend, name, marks=[*marks, *(() if (backend, name) == EACH_TIME else [pytest.mark.proof])])
    for backend, marks in (("bwrap", ()), ("docker", [pytest.mark.docker]))
    for name in NAMES
    if backend == "docker" or not builds_an_image(name)
])  # fmt: skip
async def test_the_reference_passes_and_what_is_wrong_or_untouched_fails(sealed, backend, name):
    folder, dataset = sealed
    (task,) = [task for task in dataset.tasks if task.name.rpartition("/")[2] == name]
    async with closing(backend, folder / "public") as place:
        common = {"sealed_root": folder / "sealed", "place": place}
        reference = await grade(task, await control.reference(task, **common), **common)
        assert (reference.passed, reference.witness) == (True, "agrees")
        assert (await grade(task, None, **common)).passed is False
        for script in sorted((WRONG / name).glob("*.sh")):
            verdict = await grade(task, await submitted(task, script, place), **common)
            assert verdict.passed is False, f"{script.name} passes"
