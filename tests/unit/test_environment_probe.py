import asyncio
import json
import subprocess
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.agent import environment_probe
from hc_ray.agent.loop import Bounds
from hc_ray.agent.terminal import Limits
from hc_ray.domain.errors import SandboxError
from hc_ray.domain.ports import ExecResult
from hc_ray.domain.task import Environment, EnvironmentView, FileView, Task
from hc_ray.sandboxes.inside import look as looker
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Spec
from tests.fakes.grading import MemoryPlace


def test_looking_around_tells_tools_files_and_functions(tmp_path):
    for path, data in {"in/t.csv": b"a,b\n1,2\n3,4\n", "o.json": b'[{"x": 1, "y": 2}]', "raw.bin": b"\xff\x00",
                       "old.txt": b"R\xfcckgabe\r\nzwei",
                       "m.py": b"def f(a, b=1):\n    pass\n", ".hidden": b"x", ".git/HEAD": b"x",
                       "long": b"." * (looker.READ - 1) + "é".encode()}.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    seen = {one["path"]: one for one in looker.files(tmp_path)}
    assert set(seen) == {"in/t.csv", "o.json", "m.py", "raw.bin", "old.txt", ".hidden", ".git/", "long"}
    assert seen["long"]["lines"] == 1, "what is read ends within a character"
    assert (seen["old.txt"]["lines"], seen["old.txt"]["preview"]) == (2, "Rückgabe\nzwei"), "a text in no UTF-8"
    assert seen["in/t.csv"]["lines"] == 3 and seen["m.py"]["functions"] == ["f(a, b=1)"]
    assert "lines" not in seen["raw.bin"] and "sed" in looker.tools(tmp_path, {})
    report = json.dumps({"tools": {"cc": "at 0x7f00aabbccdd"}, "files": list(seen.values())}).encode()
    view = environment_probe.read(report)
    assert view.tools == {"cc": "at 0x7f00aabbccdd"}
    assert environment_probe.shown(view, ["in/t.csv", "absent"]) == "in/t.csv begins:\na,b\n1,2\n3,4"


def test_empty_folders_are_told_among_the_files_and_no_more_of_both_than_are_counted(tmp_path, monkeypatch):
    for folder in ("a/empty", "b", "c/full"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "c/full/x").write_text("x")
    assert [one["path"] for one in looker.files(tmp_path)] == ["a/empty/", "b/", "c/full/x"]
    assert [one["path"] for one in looker.outside([str(tmp_path / "b")])] == [f"{tmp_path}/b/"]
    monkeypatch.setattr(looker, "COUNTED", 2)
    assert len(looker.files(tmp_path)) == 2


def test_the_state_and_the_last_commits_of_git_repositories_are_told_and_nothing_in_them_changes(tmp_path):
    def git(*words, at):
        user = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *user, *words], cwd=at, check=True, capture_output=True, timeout=30)

    root, scratch = tmp_path / "app", tmp_path / "scratch"
    work, store = root / "deep/work", root / "store.git"
    for path in (work, scratch):
        path.mkdir(parents=True)
    git("init", at=work)
    for number in range(20):
        git("commit", "--allow-empty", "-m", f"change {number}", at=work)
    git("tag", "v1", at=work)
    git("branch", "old", "HEAD~2", at=work)
    git("clone", "--bare", ".", str(store), at=work)
    (work / "new.txt").write_text("x")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    listed = [one["path"] for one in looker.files(root)]
    assert listed == ["store.git/", "deep/work/.git/", "deep/work/new.txt"], "what lies in a repository is its own"
    assert [one["path"] for one in looker.outside([str(store)])] == [f"{store}/"]
    told = looker.repositories([root, *(root / path for path in listed if path.endswith("/"))], scratch)
    assert list(told) == [str(store), str(work)] and "change 19" in told[str(store)]
    lines = told[str(work)].splitlines()
    assert lines[:2] == ["## main", "?? new.txt"] and "HEAD -> main, tag: v1) change 19" in lines[2]
    assert (
        any("(old) change 17" in line for line in lines) and lines[-1] == "…" and len(lines) == looker.STATE_LINES + 3
    )
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    (store / "hooks").mkdir(exist_ok=True)
    for name in ("post-receive", "update.sample"):
        (store / "hooks" / name).write_text("x")
    within = [one["path"] for one in looker.files(store)]
    assert {"objects/", "refs/", "HEAD", "hooks/post-receive"} <= {*within}, "a bare repository as working directory"
    assert len([one for one in within if one.startswith(("objects", "refs")) or one.endswith(".sample")]) == 2


def test_what_the_task_names_outside_of_the_workdir_is_looked_at(tmp_path):
    for path in ("few/q.sql", *(f"many/{number}" for number in range(looker.FEW + 1)), "alone"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x")
    named = [str(tmp_path / name) for name in ("few", "many", "alone", "absent")]
    seen = [one["path"].removeprefix(f"{tmp_path}/") for one in looker.outside(named)]
    assert seen == ["few/q.sql", "many/", "alone"]
    text = "Read `/q/a.sql`, see https://x.org/{id}/z, ~/w or a/b; write /app/out.txt, then /etc/motd. </p> #!/bin/sh."
    spec = Spec(instruction=text, workdir="/app")
    assert environment_probe.outside(spec) == ("/q/a.sql", "/etc/motd")
    there = EnvironmentView(outside=(FileView(path="/etc/motd", size=3), FileView(path="/v/", size=0)))
    task = Task(name="t", digest="d", instruction=text, environment=Environment())
    told = environment_probe.describe(spec.with_snapshot(there), task)
    assert told.endswith("- elsewhere, named by the task:\n  /etc/motd (3 bytes)\n  /v/")


def test_a_preview_that_is_cut_says_so_and_a_lineage_is_told_what_is_there_and_may_be_spent_but_no_wall_time():
    view = EnvironmentView(files=(FileView(path="a", size=9, lines=7, preview="1\n2"),))
    assert environment_probe.shown(view, ["a"]).endswith("[5 more lines]")
    task = Task(name="t", digest="d", instruction="Do it.", environment=Environment())
    files = tuple(FileView(path=f"f{number:02}", size=1200 + number) for number in range(45))
    view = EnvironmentView(tools={"gcc": "12.2", "awk": ""}, files=files, count=900, system="Debian 12", user="root")
    bounds = Bounds(turns=40, tokens=50_000, answer_tokens=4000, limits=Limits(shown=4000))
    spec = read_spec(task.instruction, task.environment).with_snapshot(view)
    told = environment_probe.block(spec, task, bounds)
    for part in (
        "Debian 12; user: root; network: none", "on PATH, among others: gcc 12.2, awk\n",
        "60 seconds; you can ask for up to 900",
        "40 turns and 50,000 tokens", "  f00 (1,200 bytes)", "more: 900 files in all", "4,000 characters",
    ):  # fmt: skip
        assert part in told
    assert told.count("\n  f") == 40 and "graded by its files, elsewhere: nothing that you started runs" in told
    shared = task.model_copy(update={"grading": "shared"})
    assert "graded here, with what you leave running" in environment_probe.block(spec, shared, bounds)
    scarce = environment_probe.block(spec, task, bounds.model_copy(update={"tokens": 3000}))
    assert "an answer may have 3,000 tokens" in scarce and "4,000 tokens" not in scarce
    bare = environment_probe.describe(spec.with_snapshot(EnvironmentView()), task)
    assert "is empty" in bare and "no common tools" in bare


@given(st.binary(max_size=80))
def test_any_report_is_read(report):
    assert environment_probe.read(report).files == ()


async def test_trials_of_a_task_share_one_look_which_is_none_of_theirs_and_of_several_tasks_one_tells_the_others():
    trial, place = ContextVar("trial", default="nobody's"), MemoryPlace()
    seen, under_way, faults, make = [], [0, 0], [SandboxError("gone")], place.create

    async def create(task, name, *, network=False):
        async def look(command, *, timeout, stdin):
            seen.append((trial.get(), json.loads(stdin)))
            under_way[0] += 1
            under_way[1] = max(under_way)
            await asyncio.sleep(0.01)
            under_way[0] -= 1
            if faults:
                raise faults.pop()
            report = EnvironmentView(system=task.digest, shared={"/usr/bin/awk": "1.3"})
            return ExecResult(exit_code=0, stdout=report.model_dump_json().encode(), stderr=b"", seconds=0.0)

        sandbox = await make(task, name)
        sandbox.exec = look
        return sandbox

    place.create = create
    looks = environment_probe.Looks(place)

    async def ask(digest, name):
        trial.set(name)
        task = Task(name="t", digest=digest, instruction="", environment=Environment())
        return (await looks.around(Spec(instruction="", workdir="/app"), task)).snapshot.system

    with pytest.raises(SandboxError, match="gone"):
        await asyncio.gather(ask("a", "one"), ask("a", "other"))
    assert await asyncio.gather(*(ask(digest, "any") for digest in "aabc")) == ["a", "a", "b", "c"]
    assert seen == [("nobody's", known) for known in ({}, {}, *[{"/usr/bin/awk": "1.3"}] * 2)] and under_way[1] == 2
    assert all(sandbox.closed for sandbox in place.made)


async def test_what_an_instruction_names_lies_in_the_workdir_of_the_image_where_the_task_names_none():
    environment = Environment(dockerfile="FROM x\nCOPY in.csv ./\n", workdir="", files=("in.csv",))
    task = Task(name="t", digest="d", instruction="Sort `/app/in.csv` into `/app/out.csv`.", environment=environment)
    place = MemoryPlace(says=lambda *_: b"{}")
    spec = await environment_probe.Looks(place).around(read_spec(task.instruction, task.environment), task)
    assert [(one.path, one.exists) for one in spec.files] == [("in.csv", True), ("out.csv", False)]
    assert "- working directory: /app\n" in environment_probe.describe(spec, task)
