"""A task whose image has a user of its own, from the agent's first command to the verdict, in Docker: a repository that
belongs to the user, and hidden tests that look at whose the files are and who they run as."""

import tarfile
from pathlib import Path

import pytest

from hc_ray.blind.grading import control
from hc_ray.blind.grading.shared import grade_shared
from hc_ray.blind.grading.verify import grade
from hc_ray.domain.task import Task
from hc_ray.reports.report import rows_of
from hc_ray.stores.sweep_directory import SweepStore
from tests.fakes.sweeps import swept
from tests.fakes.tasks import TOML, sealed_task
from tests.fakes.terminal_tasks import PLAYED

pytestmark = [pytest.mark.docker, pytest.mark.slow]
DOCKERFILE = """FROM python:3.11-slim-bookworm

RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*

RUN groupadd -g 1700 crew && useradd -m -u 1600 -G crew worker && useradd -m -u 1601 checker \\
    && install -d -o worker -g worker /srv/notes
WORKDIR /srv/notes
USER worker
RUN git init -q . && git config user.email a@b.c && git config user.name w && echo one > one && git add one \\
    && git commit -qm one
"""
SOLVE = "#!/bin/bash\nset -e\ncd /srv/notes\ngit status --short\necho two > two\ngit add two\ngit commit -qm two\n"
TEST_SH = """#!/bin/bash
echo 0 > /logs/verifier/reward.txt
[ "$(id -u) $HOME" = "$WANTED /home/worker" ] || exit
cd /srv/notes
[ "$(stat -c %u:%g . two .git/index .git/HEAD | sort -u)" = 1600:1600 ] || exit
if [ "$WANTED" = 1600 ]; then [ "$(id -G)" = "1600 1700" ] && git status --short && echo x > two || exit; fi
[ "$(git -c safe.directory='*' log --format=%s | tr '\\n' ' ')" = "two one " ] && echo 1 > /logs/verifier/reward.txt
"""


def sealed(ground: Path, *, user: str = "", shared: bool = False) -> Task:
    mode = '\nenvironment_mode = "shared"' if shared else ""
    wanted = "1601" if user else "1600"
    toml = TOML + f"{user}{mode}\n[verifier.env]\nWANTED = '{wanted}'\n"
    return sealed_task(
        ground, name="notes", instruction="Commit a second note.\n", toml=toml, dockerfile=DOCKERFILE,
        tests={"test.sh": TEST_SH}, solution={"solve.sh": SOLVE},
    )  # fmt: skip


async def test_the_submission_keeps_its_owner_and_the_tests_run_as_the_verifier_says(places, ground):
    task = sealed(ground, user='user = "checker"')
    box = await places[0].create(task, "agent")
    done = await box.exec(["bash", "-c", SOLVE], timeout=60)
    assert done.exit_code == 0, done
    submission = control.make_submission(task, (await box.difference()).tar, "agent")
    verdict = await grade(task, submission, sealed_root=ground / "sealed", place=places[1])
    assert (verdict.passed, verdict.cause) == (True, "passed"), verdict
    untouched = await grade(task, None, sealed_root=ground / "sealed", place=places[1])
    assert (untouched.passed, untouched.cause) == (False, "failed"), untouched


async def test_the_tests_run_as_the_images_user_in_shared_grading_too(places, ground):
    task = sealed(ground, shared=True)
    box = await (await places[0].create(task, "base")).fork("agent")
    done = await box.exec(["bash", "-c", f"{SOLVE}\nid -u; echo $HOME"], timeout=60)
    assert (done.exit_code, done.stdout) == (0, b"1600\n/home/worker\n"), done
    submission = control.make_submission(task, (await box.difference()).tar, "agent")
    submission = submission.model_copy(update={"living": await box.hand_over()})
    verdict = await grade_shared(task, submission, sealed_root=ground / "sealed", place=places[1], spared=())
    assert (verdict.passed, verdict.cause) == (True, "passed"), verdict


def test_a_loop_of_actions_in_a_repository_of_the_user_passes_as_does_the_reference(ground, monkeypatch):
    sealed(ground)
    monkeypatch.setenv("HC_PLAYED_DATASET", str(ground / "set"))
    swept(ground / "out", ground / "set", sandbox="docker", **{**PLAYED, "agents": ("raw", "oracle")})
    rows = {row["agent"]: (row["passed"], row["turns"]) for row in rows_of(SweepStore(str(ground / "out")))}
    assert rows["raw"] == (True, 5) and rows["oracle"][0] is True
    for submission in (ground / "out").glob("trials/*/artifacts/submission.tar"):
        with tarfile.open(submission) as archive:
            names = archive.getnames()
        assert "srv/notes/two" in names and not [name for name in names if name.startswith("solution")]


async def test_a_result_in_the_references_own_folder_is_handed_in_and_graded_without_the_reference(places, ground):
    script = "#!/bin/bash\n[ ! -e /solution/solve.sh ] && grep -qx 42 /solution/answer && ok=1\n"
    task = sealed_task(
        ground, name="there", instruction="Write 42 to `/solution/answer`.\n", toml=TOML,
        tests={"test.sh": f"{script}echo ${{ok:-0}} > /logs/verifier/reward.txt\n"},
        solution={"solve.sh": "#!/bin/bash\necho 42 > /solution/answer\n"},
    )  # fmt: skip
    box = await places[0].create(task, "agent")
    done = await box.exec(["bash", "-c", "mkdir -p /solution; echo 42 > /solution/answer"], timeout=60)
    assert done.exit_code == 0, done
    for made in (control.make_submission(task, (await box.difference()).tar, "agent"),
                 await control.reference(task, sealed_root=ground / "sealed", place=places[1])):  # fmt: skip
        verdict = await grade(task, made, sealed_root=ground / "sealed", place=places[1])
        assert (verdict.passed, verdict.cause) == (True, "passed"), verdict
