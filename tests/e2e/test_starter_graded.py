"""Tasks of the starter dataset: the reference passes, doing nothing fails. All in bubblewrap and every second one in
Docker, of every kind and image, since the sandboxes differ and not the tests. The demo's tasks are tried each time, the
others as a proof, since they take minutes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hc_ray.blind.grading import control
from hc_ray.blind.grading.verify import grade
from hc_ray.blind.sealing import vault
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.machine.paths import configs_dir
from tests.fakes.sandbox_home import BACKENDS, closing, sealed_in

AT_ONCE = 5


@pytest.fixture(scope="module")
def sealed() -> Iterator[tuple[Path, vault.SealedDataset]]:
    with sealed_in(configs_dir() / "tasks" / "starter") as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("tag", [
    pytest.param("demo", marks=pytest.mark.part), pytest.param("", id="all", marks=pytest.mark.proof)
])  # fmt: skip
@pytest.mark.parametrize("backend", BACKENDS)
async def test_for_every_starter_task_the_reference_passes_and_an_untouched_workspace_fails(sealed, backend, tag):
    folder, dataset = sealed
    turn, root = asyncio.Semaphore(AT_ONCE), folder / "sealed"

    async def verdicts(task: Task, place: SandboxPlace) -> tuple[str, bool | None, str, bool | None]:
        async with turn:
            submission = await control.reference(task, sealed_root=root, place=place)
            solved = await grade(task, submission, sealed_root=root, place=place)
            untouched = await grade(task, None, sealed_root=root, place=place)
            return task.name, solved.passed, solved.witness, untouched.passed

    asked = [task for task in dataset.tasks if not tag or tag in task.tags]
    assert dataset.refused == () and len(asked) >= 8
    async with closing(backend, folder / "public") as place:
        assert [task.name for task in asked if place.refuses(task) is not None] == []
        tried = asked[::2] if backend == "docker" else asked
        found = await asyncio.gather(*(verdicts(task, place) for task in tried))
    assert [one for one in found if one[1:] != (True, "agrees", False)] == []
