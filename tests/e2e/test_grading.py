"""Blind grading in real sandboxes, of scripts as people write them. References and untouched environments are graded in
test_starter_graded.py, what forged verdicts earn is tried in tests/boundary/test_cheats.py."""

from collections.abc import AsyncIterator
from pathlib import Path
from tarfile import SYMTYPE

import pytest

from hc_ray.blind.grading import control as oracle
from hc_ray.blind.grading.verdict import Verdict
from hc_ray.blind.grading.verify import grade
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from tests.fakes.sandbox_home import BACKENDS, open_place
from tests.fakes.tars import make_tar, member
from tests.fakes.tasks import sealed_task

GOOD = "def add(a, b):\n    return a + b\n"
IN_PROCESS = """import sys
sys.path.insert(0, "/app")


def test_adds():
    from add import add
    assert add(2, 3) == 5
"""


@pytest.fixture(params=BACKENDS)
async def place(request: pytest.FixtureRequest, ground: Path) -> AsyncIterator[SandboxPlace]:
    made = open_place(request.param, ground / "public")
    yield made
    await made.close()


async def graded(
    task: Task, files: dict[str, str], place: SandboxPlace, ground: Path, *links: tuple[str, str]
) -> Verdict:
    tar = make_tar(files, *(member(name, SYMTYPE, target) for name, target in links))
    submission = oracle.make_submission(task, tar, "trial")
    return await grade(task, submission, sealed_root=ground / "sealed", place=place)


async def test_a_syntax_error_under_a_script_that_stops_and_a_verifier_past_its_time_are_fails(place, ground):
    script = "set -e\ncd /app\npython3 -m pytest -q /tests/test_outputs.py\necho 1 > /logs/verifier/reward.txt\n"
    task = sealed_task(ground, tests={"test.sh": script, "test_outputs.py": IN_PROCESS})
    broken = await graded(task, {"/app/add.py": "def add(a, b:\n"}, place, ground)
    assert (broken.passed, broken.cause) == (False, "no_verdict")
    assert (await graded(task, {"/app/add.py": GOOD}, place, ground)).passed is True
    toml = "[verifier]\ntimeout_sec = 1.0\n"
    task = sealed_task(ground, toml=toml, tests={"test.sh": "echo 1 > /logs/verifier/reward.txt\nsleep 600 & wait\n"})
    verdict = await graded(task, {"/app/a": ""}, place, ground)
    assert (verdict.passed, verdict.cause) == (False, "timeout") and verdict.seconds < 30


async def test_no_link_leads_the_tests_into_modules_of_the_candidate_s_beside_pytest(place, ground):
    evil = {"/srv/evil/pytest.py": "import os\nos._exit(0)\n"}
    script = "cd /app/src\npython3 -m pytest -q /tests/test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    for link, folder in (("app", "/app"), ("app/src", "/app/src")):
        task = sealed_task(ground, tests={"test.sh": script.replace("/app/src", folder), "test_outputs.py": IN_PROCESS})
        verdict = await graded(task, evil, place, ground, (link, "/srv/evil"))
        assert (verdict.cause, verdict.tampered) == ("tampered", ("/srv/evil/pytest.py",))
    assert (await graded(task, {"/srv/good/add.py": GOOD}, place, ground, ("app", "/srv/good"))).passed is True


async def test_a_shell_only_verifier_passes_without_a_witness(place: SandboxPlace, ground: Path) -> None:
    script = (
        'mkdir -p /logs/verifier\n[ "$(cat out.txt)" = yes ] && echo \'{"reward": 1}\' > /logs/verifier/reward.json\n'
    )
    task = sealed_task(ground, tests={"test.sh": script})
    verdict = await graded(task, {"/app/out.txt": "yes"}, place, ground)
    assert (verdict.passed, verdict.witness) == (True, "none")
    assert (await grade(task, None, sealed_root=ground / "sealed", place=place)).cause == "no_verdict"


async def test_the_witness_is_found_by_scripts_that_set_the_search_path_anew(place: SandboxPlace, ground: Path) -> None:
    script = (
        "export PYTHONPATH=/app${PYTEST_AT:+:$PYTEST_AT}\ncd /tests\n"
        "python3 -m pytest -q -p no:cacheprovider test_outputs.py && echo 1 > /logs/verifier/reward.txt\n"
    )
    # Where the image brings no pytest of its own, the script names the one that the runner lends.
    toml = '[verifier]\nenv = {PYTEST_AT = "/opt/hc/lib/pytest_pure"}\n'
    task = sealed_task(ground, toml=toml, tests={"test.sh": script, "test_outputs.py": IN_PROCESS})
    verdict = await graded(task, {"/app/add.py": GOOD}, place, ground)
    assert (verdict.passed, verdict.witness) == (True, "agrees"), verdict
