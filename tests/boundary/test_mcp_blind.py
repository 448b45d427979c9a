"""No tool of the MCP server gives out anything sealed: every path that a client may think of, hostile folders, links
that come and go, and tests that look for secrets in their sandbox."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hc_ray.blind.sealing import vault
from hc_ray.domain.errors import UserError
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.integrations.mcp_folders import Folders, PlainStore, opened
from hc_ray_actors.integrations.mcp_workspace import WORKDIR, contents
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.mcp_client import asked, connected
from tests.fakes.normal_form import normal_form
from tests.fakes.sandbox_home import own_home
from tests.fakes.sweepdir import add_told_trial, sweep
from tests.fakes.tasks import make_task

OPEN = ("", ".", "/", "work/root")
"""Workspaces, if not good ones: the tasks in them are left out."""
TOKEN = f"canary-of-mcp-{secrets.token_hex(12)}"
"""Stands in every sealed file and in names of them."""
SUITE = {"tests": [], "notes": [TOKEN], "environment": TOKEN}
"""What a sealed file would have to hold to be mistaken for a suite."""
LOOK = '''```python
def test_no_secret():
    """happy_path | "Write greeting.txt." """
    import os, pathlib
    seen = []
    for here, folders, files in os.walk("/"):
        if here == "/":
            folders[:] = set(folders) - {"proc", "sys", "opt", "usr", "lib", "lib64", "bin", "sbin"}
        for path in (pathlib.Path(here, name) for name in files + folders):
            if path.is_file() and path.stat().st_size < 1e6 and b"canary-of" b"-mcp-" in path.read_bytes():
                seen.append((str(path), path.read_text(errors="replace")[:200]))
            elif "canary-of" "-mcp-" in path.name:
                seen.append(str(path))
    assert not seen, seen
    assert pathlib.Path("greeting.txt").exists()
```'''


PLAIN = LOOK.partition("    import os")[0] + '    assert open("greeting.txt").read()\n```'


def _model(body: dict[str, Any], tests: str = LOOK) -> str:
    text = prompt_of(body)
    if "A colleague wrote" in text:
        return 'test_no_secret: right | "Write greeting.txt." | asked for'
    return tests if "QA engineer" in text else "ok"


class Ground:
    """A folder that a user allowed, with what people keep in theirs: tasks, an old data root, a sweep, a project."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.task, self.old, self.run, self.work = root / "data" / "add", root / "old", root / "run", root / "work"
        make_task(root / "data", tests={"test.sh": f"# {TOKEN}\n"}, solution={"solve.sh": f"# {TOKEN}\n"})
        (self.task / "tests" / "suite.json").write_text(json.dumps(SUITE))
        (self.task / "tests" / f"{TOKEN}.txt").write_text(TOKEN)
        (self.task / "environment" / "given.txt").write_text("free")
        for base in (home, self.old):
            vault.seal(root / "data", base / "public", base / "sealed" / "dataset")
            (base / "sealed" / "dataset" / "outputs").mkdir()
            (base / "sealed" / "dataset" / "outputs" / "one.txt").write_text(TOKEN)
        (root / "data.sealed.tar.gz").write_text(TOKEN)
        legacy = root / "legacy"
        legacy.mkdir()
        for name in ("task.yaml", "run-tests.sh", "solution.sh"):
            (legacy / name).write_text(TOKEN)
        store = sweep(planned_trials=1)
        self.trial = add_told_trial(store)
        store.save(self.run)
        (self.run / "grown").mkdir()
        self.work.mkdir()
        (self.work / "free.txt").write_text("free")
        (self.work / ".git").mkdir()
        (self.work / ".git" / "packed").write_text(TOKEN)
        self.links = {"tests": self.task / "tests", "file": self.task / "tests" / "test.sh", "home": home / "sealed",
                      "root": Path("/"), "run": self.run, "self": self.work / "self"}  # fmt: skip
        for name, target in self.links.items():
            (self.work / name).symlink_to(target)
        shutil.copytree(self.task, self.work / "inner")

    @property
    def places(self) -> list[str]:
        """Paths, each by several ways, that lead to what is sealed."""
        sealed = next((self.home / "sealed" / "dataset").glob("*/verifier.json")).parent
        inside = [self.task, self.task / "tests", self.task / "tests/test.sh", self.task / "tests/suite.json", sealed,
                  self.task / "solution", self.root / "legacy", self.home, self.home / "sealed",
                  sealed / "tests/test.sh",
                  self.old / "sealed/dataset/outputs", self.old / "sealed/dataset/outputs/one.txt", self.old,
                  self.root / "data.sealed.tar.gz", self.work / "inner/tests"]  # fmt: skip
        ways = ["{0}", "/proc/self/root{0}", "/proc/self/cwd/../..{0}", "//{0}/", "work/root{0}", "{0}/../{1}", "{0}\0",
                "/dev/fd/../../..{0}", "file://{0}", "environment/..{0}"]  # fmt: skip
        return [way.format(path, path.name) for path in inside for way in ways] + [
            "work/tests", "work/file", "work/home", "work/root", "work/self", "data/add/environment/../tests",
            "run/../data/add/tests", "run/trials/../../data/add", f"run/{self.trial}/../../../data/add/tests",
            "data/add/tests/suite.json", "~/x", "", ".", "/", "*", "run/*", "run/trials", f"run/{TOKEN[:7]}",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with own_home() as home:
        yield Ground(tmp_path_factory.mktemp("allowed"), home)


@pytest.fixture
def folders(ground: Ground) -> Folders:
    return Folders([str(ground.root)])


async def test_no_tool_gives_out_anything_sealed_whatever_path_it_is_asked_for(ground):
    """The client allowed all of the disk: what keeps it out is what the folders are."""
    answers: list[tuple[Any, ...]] = []
    with EngineServer(_model, listed={"max_model_len": 32_768}) as server:
        words = ["--sandbox", "bwrap", "--base-url", server.base_url, "--model", "fake", "--allow", ground.root]
        async with connected(*words, "--allow", "/", cwd=ground.root) as session:

            async def ask(tool: str, **given: Any) -> dict[str, Any] | str:
                answer = await asked(session, tool, **given)
                answers.append((tool, given, answer))
                return answer

            for path in ground.places:
                refused = [await ask("run_tests", workspace=path), await ask("sweep_status", out=path),
                           await ask("show_trial", trial=path),
                           await ask("run_tests", workspace="work", suite=path)]  # fmt: skip
                if path not in OPEN:
                    refused.append(await ask("generate_tests", workspace=path, instruction="Write greeting.txt."))
                assert all(isinstance(one, str) for one in refused), (path, refused)
            suite = await ask("generate_tests", workspace="work", instruction="Write greeting.txt.")
            assert isinstance(suite, dict), suite
            (ground.work / "greeting.txt").write_text("hello")
            ran = await ask("run_tests", workspace="work")
            assert [test["what"] for test in suite["tests"]] == ["test_no_secret"] and ran["passed"] == 1, ran
            assert "inner: a task" in ran["left_out"] and ".git: history" in ran["left_out"]
            shown = await ask("show_trial", trial=f"run/{ground.trial}")
            assert shown["passed"] is True and (await ask("sweep_status", out="run"))["done"] == 1
            told = _spelt(answers) + b"".join(server.wire)
            assert TOKEN.encode() not in told, [one for one in answers if TOKEN in str(one)]
            assert not any("bug" in str(answer) for *_, answer in answers)
            (ground.work / "leak.txt").write_text(TOKEN)
            leaks = await ask("run_tests", workspace="work")
            assert TOKEN in leaks["failures"][0]["error"], "the tests in the sandbox see nothing: they prove nothing"
    assert [path for path in (ground.home / "mcp").rglob("*.json") if TOKEN in path.read_text()] == []


def _spelt(answers: list[tuple[Any, ...]]) -> bytes:
    """Answers without what the client itself had said."""
    return b"\n".join(
        str(answer).replace(str(value), "").encode()
        for _, given, answer in answers
        for value in (*given.values(), "\0")
    )


@pytest.fixture
def swapping(ground: Ground) -> Iterator[None]:
    """Somebody who may write into the folder puts links into it and takes them away, as fast as he can."""
    suite = ground.run / "trials" / ground.trial / "agent" / "suite.json"
    part = ground.root / "part"
    part.mkdir()
    (part / "suite.json").write_text("{}")
    over = threading.Event()
    pairs = [(suite, ground.task / "tests" / "suite.json"), (part, ground.task / "tests")]

    def swap() -> None:
        links = [path.with_name(f"{path.name}-link") for path, _ in pairs]
        for link, (_, target) in zip(links, pairs, strict=True):
            link.symlink_to(target)
        while not over.is_set():
            for link, (path, _) in zip(links, pairs, strict=True):
                path.rename(path.with_name("away"))
                link.rename(path)
                path.rename(link)
                path.with_name("away").rename(path)
        for link in links:
            link.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    over.set()
    thread.join()
    shutil.rmtree(part)


def _tries(look: Any, seconds: float = 0.8) -> list[str]:
    """What comes of a look, again and again."""
    seen, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            seen.append(str(look()))
        except (UserError, OSError, KeyError) as error:
            seen.append(f"refused: {error}")
    return seen


def test_a_link_that_somebody_puts_there_meanwhile_is_not_followed(ground, folders, swapping):
    suite = f"trials/{ground.trial}/agent/suite.json"
    by_name = _tries(lambda: SweepStore(str(ground.run)).read(suite))
    assert any(TOKEN in one for one in by_name), "nobody swaps fast enough: the test is worth nothing"
    plain = _tries(lambda: folders.sweep("run").read(suite))
    assert not any(TOKEN in one for one in plain) and any("a link" in one for one in plain)
    held = _tries(lambda: contents(folders.workspace("part")).members)
    assert not any(TOKEN in one for one in held) and any("suite.json" in one for one in held)


def test_only_what_is_no_task_no_sweep_and_no_data_of_hc_ray_is_read_of_a_workspace(ground, folders):
    seen = contents(folders.workspace("."))
    assert {one.path for one in seen.members if one.kind == "file"} <= {
        f"{WORKDIR}/work/{name}"
        for name in os.listdir(ground.work)  # noqa: PTH208
    }
    assert set(seen.left_out) == {
        "data/add: a task", "data.sealed.tar.gz: sealed", "legacy: a task", "old: the data of hc-ray", "run: a sweep",
        "work/.git: history", "work/home: a link to the data of hc-ray", "work/inner: a task",
    }  # fmt: skip
    given = contents(folders.workspace("data/add/environment"))
    assert f"{WORKDIR}/given.txt" in {one.path for one in given.members}


def test_what_no_sandbox_or_prompt_can_hold_is_left_out(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("x")
    (tmp_path / "link").symlink_to(os.fsdecode(b"\xff"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "line\nbreak").write_text("x")
    seen = contents(Folders([str(tmp_path)]).workspace("."))
    assert [one.path for one in seen.members] == [WORKDIR, f"{WORKDIR}/line\nbreak"]
    assert sorted(seen.left_out) == ["caf?: its name or link target is not valid UTF-8",
                                     "link: its name or link target is not valid UTF-8", "pipe: no file"]  # fmt: skip
    assert seen.task(tmp_path, "x", "image").digest


def test_a_workspace_that_is_too_big_for_a_sandbox_is_refused(tmp_path, monkeypatch):
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="contains more than 256 MiB or 20,000 paths; name a smaller folder"):
        contents(tmp_path)
    monkeypatch.setattr("hc_ray_actors.integrations.mcp_workspace.MOST_PATHS", 3)
    (tmp_path / "hole").unlink()
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(UserError, match="contains more than"):
        contents(tmp_path)


def test_what_is_no_folder_cannot_be_allowed():
    with pytest.raises(UserError, match=r"^--allow none: not a folder$"):
        Folders(["none"])


def test_a_file_is_not_opened_through_a_link_on_any_part_of_its_path(ground):
    for path in (ground.work / "file", ground.work / "tests" / "test.sh", ground.work / "root" / "etc" / "hosts"):
        with pytest.raises(UserError, match="link"):
            opened(path)


def test_trials_are_looked_for_through_no_link(tmp_path):
    store = sweep()
    trial = add_told_trial(store)
    trials = store.save(tmp_path) / "trials"
    assert PlainStore(str(tmp_path)).holding("result.json") == {trial}
    trials.rename(tmp_path / "moved").joinpath("empty").mkdir()
    trials.symlink_to(tmp_path / "moved")
    with pytest.raises(UserError, match="link"):
        PlainStore(str(tmp_path)).holding("result.json")


def test_the_server_imports_nothing_that_opens_tests():
    code = "import sys, hc_ray_actors.integrations.mcp_server\nprint([one for one in sys.modules if '.blind' in one])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


async def test_other_hidden_tests_change_no_byte_that_the_model_is_asked(ground):
    """The one part of a task that is a workspace, before and after its tests and solution are others."""
    workspace = "data/add/environment"
    with EngineServer(lambda body: _model(body, PLAIN), listed={"max_model_len": 32_768}) as server:
        words = ["--sandbox", "bwrap", "--base-url", server.base_url, "--model", "fake"]
        async with connected(*words, cwd=ground.root) as session:

            async def sent() -> list[str]:
                server.requests.clear()
                suite = await asked(session, "generate_tests", workspace=workspace, instruction="Write greeting.txt.")
                assert isinstance(suite, dict) and suite["tests"], suite
                asks = [normal_form(json.dumps(body)) for body in server.bodies() if "QA engineer" in prompt_of(body)]
                return [*asks, normal_form(json.dumps(suite))]

            first = await sent()
            assert len(first) >= 3 and "given.txt" in first[0], (
                "nothing is told of the workspace: the test is worth nothing"
            )
            shutil.rmtree(ground.task / "solution")
            (ground.task / "tests" / "test.sh").write_text("exit 1\n" * 9999)
            assert await sent() == first
