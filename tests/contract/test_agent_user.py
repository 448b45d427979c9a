import asyncio
import os

import pytest

from hc_ray.agent.actions import Action
from hc_ray.agent.terminal import PLACE, Limits, Terminal
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.runner_paths import RUNNER_PYTHON
from hc_ray.domain.suite import Property, SelfTest, Subject
from hc_ray.machine.owner import current_owner
from hc_ray.sandboxes.docker.container import DockerSandbox
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from hc_ray.selftests import runner
from tests.fakes.docker_tasks import task_with_environment

pytestmark = pytest.mark.docker
DOCKERFILE = """FROM python:3.11-slim-bookworm
RUN groupadd -g 1700 crew && useradd -m -u 1600 -G crew worker && useradd -m -u 1601 other \\
    && install -d -o worker -g worker /app && install -d -g crew -m 2775 /srv/shared \\
    && touch /app/secret /app/theirs && chmod 600 /app/secret && chown worker /app/theirs
WORKDIR /app
USER worker
"""
LIMITS = Limits(seconds=20, most_seconds=60, shown=2000)


@pytest.fixture
async def place(tmp_path):
    made = DockerPlace(tmp_path, owner=current_owner())
    yield made
    await made.close()


@pytest.fixture
async def box(place, tmp_path):
    return await place.create(task_with_environment(tmp_path, {}, dockerfile=DOCKERFILE), "box")


async def act(terminal: Terminal, name: str, argument: str, body: str = "") -> str:
    made = {"name": name, "body": argument} if name == "sh" else {"name": name, "argument": argument, "body": body}
    return (await terminal.perform(Action.model_validate(made))).says


async def as_root(box: DockerSandbox, code: str) -> str:
    done = await box.exec([*RUNNER_PYTHON, "-I", "-c", code], timeout=20)
    assert done.exit_code == 0, done
    return done.stdout.decode().strip()


async def owners(box: DockerSandbox, *paths: str) -> str:
    return await as_root(box, f"import os\nfor p in {paths}: s = os.lstat(p); print(s.st_uid, s.st_gid, end=' ')")


async def test_commands_run_as_the_images_user_with_his_home_and_groups(box):
    terminal = Terminal(box, LIMITS)
    told = await act(terminal, "sh", "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; umask")
    assert told == "exit code 0\n1600\n1600\n1600 1700\n/home/worker worker worker\n0022"
    assert (await act(terminal, "sh", "grep CapEff /proc/self/status")).endswith("0" * 16)
    service = "(sleep 60 & echo $! > /tmp/pid); [ -O /proc/$(cat /tmp/pid) ] && echo mine"
    assert await act(terminal, "sh", service) == "exit code 0\nmine"


async def test_the_user_that_a_task_names_comes_before_the_images_though_commands_of_several_run_at_once(
    place, tmp_path
):
    task = task_with_environment(tmp_path, {}, dockerfile=DOCKERFILE)
    seen = {"other": "1601 1601", "1601": "1601 1601", "root": "0 0", "other:crew": "1601 1700", "4321": "4321 0",
            None: "1600 1600"}  # fmt: skip
    boxes = [await place.create(task.model_copy(update={"agent_user": named}), "box") for named in seen]
    ask = ["sh", "-c", "echo $(id -u) $(id -g)"]
    done = await asyncio.gather(*(box.exec(ask, timeout=20, cwd="/") for box in boxes * 3))
    assert [one.stdout.decode().strip() for one in done] == [*seen.values()] * 3
    assert os.geteuid() == os.getuid()
    with pytest.raises(DatasetError, match="no user 'nobody-here'"):
        await place.create(task.model_copy(update={"agent_user": "nobody-here"}), "box")


async def test_what_is_written_belongs_to_the_user_and_needs_his_permission(box):
    terminal = Terminal(box, LIMITS)
    for path in ("new/a.txt", "~/b.txt", "/srv/shared/c.txt"):
        assert (await act(terminal, "write", path, "text\n")).startswith("wrote ")
    assert await owners(box, "/app/new", "/app/new/a.txt", "/home/worker/b.txt",
                        "/srv/shared/c.txt") == ("1600 1600 1600 1600 1600 1600 1600 1700")  # fmt: skip
    assert "Permission denied" in await act(terminal, "write", "/etc/evil", "x\n")
    assert "Permission denied" in await act(terminal, "edit", "secret",
                                            "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n")  # fmt: skip
    edited = await act(terminal, "edit", "new/a.txt", "<<<<<<< SEARCH\ntext\n=======\nword\n>>>>>>> REPLACE\n")
    assert edited == "edited new/a.txt" and await box.get("/app/new/a.txt") == b"word\n"


async def test_a_difference_that_is_put_belongs_to_the_user_and_what_the_machinery_puts_to_root(box, place, tmp_path):
    await Terminal(box, LIMITS).perform(
        Action(name="sh", body="mkdir new; echo 1 > new/a; echo 2 > theirs; ln -s a new/l")
    )
    changed = await box.difference()
    assert changed.changed == ("/app/new", "/app/new/a", "/app/new/l", "/app/theirs")
    other = await place.create(task_with_environment(tmp_path, {}, dockerfile=DOCKERFILE), "other")
    await other.put_tar(changed.tar)
    await other.put({"/tests/t": b"3"})
    assert await owners(other, *changed.changed) == "1600 1600 " * 3 + "1600 0"  # in place: its group stays
    assert await owners(other, "/tests", "/tests/t") == "0 0 0 0"


async def test_a_session_goes_on_in_a_fork_and_no_root_process_trusts_its_state(box):
    terminal = Terminal(box, LIMITS)
    await act(terminal, "sh", "export A=1; mkdir d; cd d")
    assert await owners(box, PLACE, f"{PLACE}/exports") == "1600 1600 1600 1600"
    # Links in the place of the session's files lead nowhere that the user himself may not write.
    await act(terminal, "sh", f"ln -sf /etc/passwd {PLACE}/command.sh; ln -sf /etc/shadow {PLACE}/output-3.txt")
    assert "Permission denied" in await act(terminal, "sh", "echo gone")
    assert (await as_root(box, "print(open('/etc/passwd').read()[:5])")) == "root:"
    await as_root(box, f"import os; os.unlink('{PLACE}/command.sh')")
    fork = await box.fork("fork")
    assert await act(Terminal(fork, LIMITS), "sh",
                     "echo $A; pwd; id -u") == ("exit code 0\nworking directory: /app/d\n1\n/app/d\n1600")  # fmt: skip


async def test_checks_run_as_the_user_and_pass_over_what_he_may_not_read(box):
    body = ("import os, pathlib\n\ndef test_it():\n"
            "    assert os.geteuid() == 1600 and os.environ['HOME'] == '/home/worker'\n"
            "    pathlib.Path('made').write_text('x')\n    assert os.stat('made').st_uid == 1600\n")  # fmt: skip
    subject = Subject(kind="check", path="", function="test_it")
    test = SelfTest(id="a", category="happy_path", subject=subject, input=body, expectation=Property(name="holds"))
    suite, drive = runner.steps([test], box.workdir)
    await suite.on(box)
    done = await drive.on(box)
    cell = runner.read_runs(done.stdout, [test])[0][0]
    assert cell.outcome == "pass", (cell, done.stderr[-500:])
    left = "import os; print(sorted(os.listdir('/app')), os.stat('/app/secret').st_uid)"
    assert await as_root(box, left) == "['secret', 'theirs'] 0"


async def test_only_the_machinery_is_root_and_nothing_of_the_sandbox_has_a_say_in_how_it_starts(box):
    terminal = Terminal(box, LIMITS)
    site = "~/.local/lib/python3.11/site-packages"
    await act(terminal, "sh",
              f'mkdir -p {site}; echo \'open("/tmp/ran", "w")\' > {site}/usercustomize.py; cp {site}/* .')  # fmt: skip
    assert await as_root(box, "import os; print(os.geteuid(), os.path.exists('/tmp/ran'))") == "0 False"
    plain = await box.exec([*RUNNER_PYTHON, "-c", "import os; print(os.geteuid())"], timeout=20)
    assert plain.stdout.strip() == b"1600"


async def test_a_difference_keeps_whose_the_files_are_and_tells_of_a_change_of_owner_alone(place, tmp_path):
    task = task_with_environment(tmp_path, {}, dockerfile=DOCKERFILE).model_copy(update={"agent_user": "root"})
    box, other = await place.create(task, "box"), await place.create(task, "other")
    script = "chown other:crew /app/theirs; chown 7:8 /srv/shared; touch /app/new; chown worker /app/new"
    assert (await box.exec(["sh", "-c", script], timeout=20)).exit_code == 0
    changed = await box.difference()
    assert changed.changed == ("/app/new", "/app/theirs", "/srv/shared")
    await other.put_tar(changed.tar)
    assert await owners(other, *changed.changed) == "1600 0 1601 1700 7 8"
