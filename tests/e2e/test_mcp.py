"""``hc-ray mcp`` by the official SDK's own client: real bubblewrap sandboxes, only the model is fake."""

import contextlib
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hc_ray.machine.paths import data_root
from tests.fakes.engine_server import EngineServer, prompt_of
from tests.fakes.mcp_client import asked, connected, started
from tests.fakes.processes import alive, family, ran, shown, wait
from tests.fakes.sandbox_home import data_home
from tests.fakes.sweepdir import add_told_trial, add_trials, sweep

INSTRUCTION = (
    "Write greeting.py with a function `greet(name)`. It returns a greeting for the name. Keep notes.txt as it is."
)
TESTS = '''```python
def test_a_name():
    """happy_path | "It returns a greeting for the name." """
    from greeting import greet
    assert greet("Bo") == "Hello, Bo!"


def test_another_name():
    """boundary | "It returns a greeting for the name." """
    from greeting import greet
    assert greet("") == "Hello, !"


def test_the_notes():
    """integration | "Keep notes.txt as it is." """
    assert open("notes.txt").read() == open("/tmp/before/notes.txt").read()
```'''
NAMES = ("test_a_name", "test_another_name", "test_the_notes")
WORK = 'def greet(name):\n    return f"Hello, {name}!" if name else "Hello!"\n'
PARTS = [{"name": f"part {n}", "goal": f"do the {n}", "hint": "with care"} for n in ("first", "second", "third")]


class Model:
    """Writes tests and parts; while ``held``, it thinks."""

    def __init__(self) -> None:
        self.held, self.waiting = threading.Event(), threading.Event()
        self.held.set()

    def __call__(self, body: dict[str, Any]) -> str:
        text = prompt_of(body)
        if "QA engineer" not in text:
            return json.dumps({"parts": PARTS}) if "Break this work" in text else "ok"
        self.waiting.set()
        self.held.wait(60)
        if "A colleague wrote" in text:
            return "\n".join(f'{name}: right | "It returns" | asked for' for name in NAMES)
        return TESTS


@pytest.fixture(scope="module")
def model() -> Model:
    return Model()


@pytest.fixture(scope="module")
def words(model: Model) -> Iterator[list[str]]:
    """How the server is started."""
    with data_home(), EngineServer(model, listed={"max_model_len": 32_768}, key="sesame") as server:
        os.environ["MY_KEY"] = "sesame"
        yield ["--sandbox", "bwrap", "--base-url", server.base_url, "--model", "fake", "--api-key-env", "MY_KEY"]
        del os.environ["MY_KEY"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("as it is\n")
    return folder


@pytest.mark.slow
async def test_a_client_has_tests_written_and_run_a_task_divided_and_a_sweep_told(words, project):
    store = sweep(planned_trials=1)
    name = add_told_trial(store)
    store.save(project / "runs" / "one")
    async with connected(*words, cwd=project) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"generate_tests", "run_tests", "decompose", "sweep_status", "show_trial"}
        assert all(tool.description and tool.outputSchema and tool.annotations.readOnlyHint for tool in tools.values())
        assert tools["run_tests"].inputSchema["required"] == ["workspace"]

        suite = await asked(session, "generate_tests", workspace=".", instruction=INSTRUCTION)
        assert [test["what"] for test in suite["tests"]] == [*NAMES], suite
        assert [test["guard"] for test in suite["tests"]] == [False, False, True]
        assert suite["weak"] is False and suite["tokens"] > 0 and suite["left_out"] == ["runs/one: a sweep"]

        (project / "greeting.py").write_text(WORK)
        (project / "notes.txt").unlink()
        after = await asked(session, "run_tests", workspace=str(project), suite=suite["suite"])
        assert (after["passed"], after["failed"], after["total"], after["progress"]) == (1, 2, 3, 0.3333)
        failed = {one["test_name"]: one["error"] for one in after["failures"]}
        assert "Hello, !" in failed["boundary-1"] and "notes.txt" in failed["integration-1"]
        (project / "notes.txt").write_text("as it is\n")
        (project / "greeting.py").write_text('def greet(name):\n    return f"Hello, {name}!"\n')
        (project / "kept.json").write_text(Path(suite["file"]).read_text())
        for given in ({}, {"suite": "kept.json"}):
            right = await asked(session, "run_tests", workspace=".", **given)
            assert (right["passed"], right["total"], right["progress"], right["failures"]) == (3, 3, 1.0, [])
        assert sorted(path.name for path in project.iterdir()) == ["greeting.py", "kept.json", "notes.txt", "runs"]

        parts = await asked(session, "decompose", instruction=INSTRUCTION)
        assert parts["by_model"] and [part["goal"] for part in parts["parts"]] == [one["goal"] for one in PARTS]
        status = await asked(session, "sweep_status", out="runs/one")
        assert (status["planned"], status["done"], status["running"]) == (1, 1, [])
        for way in ("runs/one", "runs/one/double", f"runs/one/trials/{name}"):
            shown = await asked(session, "show_trial", trial=way)
            assert (shown["trial"], shown["passed"], shown["selection"]["chosen"]) == (name, True, "c0.1")
            assert "exchanges" not in shown


BAD = {
    "outside": ("run_tests", {"workspace": "/etc"}, "/etc is outside the folders that hc-ray mcp may read"),
    "dots": ("run_tests", {"workspace": "../.."}, "../.. is outside"),
    "a file": ("generate_tests", {"workspace": "notes.txt", "instruction": "x"}, "notes.txt is not a folder"),
    "nothing there": ("run_tests", {"workspace": "none"}, "none is not a folder"),
    "no path": ("run_tests", {"workspace": "a\0b"}, "'a\\x00b' is not a path"),
    "too long": ("run_tests", {"workspace": "a" * 5000}, "system error: File name too long"),
    "no instruction": ("generate_tests", {"workspace": ".", "instruction": " \n"}, "the instruction is empty"),
    "nothing to divide": ("decompose", {"instruction": ""}, "the instruction is empty"),
    "no suite yet": ("run_tests", {"workspace": "."}, "call generate_tests first"),
    "no such suite": ("run_tests", {"workspace": ".", "suite": "abc"}, "abc: neither a suite of this workspace nor"),
    "no JSON": ("run_tests", {"workspace": ".", "suite": "notes.txt"}, "notes.txt is not a suite"),
    "other JSON": ("run_tests", {"workspace": ".", "suite": "other.json"}, "other.json is not a suite"),
    "deep JSON": ("run_tests", {"workspace": ".", "suite": "deep.json"}, "deep.json is not a suite"),
    "no test": ("run_tests", {"workspace": ".", "suite": "empty.json"}, "empty.json contains no tests"),
    "no sweep": ("sweep_status", {"out": "."}, ". is not a sweep directory"),
    "a damaged sweep": ("sweep_status", {"out": "damaged"}, "sweep.json is damaged"),
    "no trial": ("show_trial", {"trial": "one/nothing"}, "nothing: no finished trial has this name"),
    "many trials": ("show_trial", {"trial": "one/t0"}, "2 trials match"),
    "a number": ("show_trial", {"trial": 7}, "Input should be a valid string"),
    "a word missing": ("generate_tests", {"workspace": "."}, "Field required"),
    "no tool": ("rm", {"path": "/"}, "Unknown tool: rm"),
}  # fmt: skip


async def test_what_a_client_asks_wrongly_is_one_line_and_the_server_goes_on(words, project):
    store = sweep()
    add_trials(store, "raw", [True, False])
    store.save(project / "one")
    (project / "damaged").mkdir()
    (project / "damaged" / "sweep.json").write_text("[]")
    texts = {"other.json": '{"a": 1}', "deep.json": "[" * 100_000, "empty.json": '{"suite": {"tests": []}}'}
    for name, text in texts.items():
        (project / name).write_text(text)
    async with connected(*words, cwd=project) as session:
        for what, (tool, given, says) in BAD.items():
            answer = await asked(session, tool, **given)
            assert isinstance(answer, str) and says in answer, (what, answer)
            assert answer.count("\n") == 0 or "validation error" in answer, what


def sandboxes_of(line) -> list[Path]:
    """The folders of a server's sandboxes. One in which nothing ran yet has no process."""
    owners = (data_root() / "sandboxes").glob("*/*/owner")
    return [owner.parent for owner in owners if str(line.process.pid) in owner.read_text()]


@contextlib.contextmanager
def in_the_middle(words, model, project):
    """A server in the middle of a call, whose model thinks."""
    model.held.clear()
    model.waiting.clear()
    try:
        with started(*words, cwd=project) as line:
            line.call(1, "generate_tests", workspace=".", instruction=INSTRUCTION)
            assert model.waiting.wait(60)
            assert sandboxes_of(line), "no sandbox is open: the test is worth nothing"
            yield line
    finally:
        model.held.set()


@pytest.mark.parametrize("how", ["the end of input", "SIGINT"])
@pytest.mark.slow
def test_an_end_in_the_middle_of_a_call_leaves_nothing_running(words, model, project, how):
    with in_the_middle(words, model, project) as line:
        mine = family(line.process.pid)
        line.process.stdin.close() if how == "the end of input" else line.process.send_signal(signal.SIGINT)
        assert line.process.wait(20) == 0
        wait(lambda: not any(map(alive, mine)), 5, f"they live: {[shown(pid) for pid in mine]}")
        assert sandboxes_of(line) == []
        assert "Traceback" not in line.process.stderr.read()


@pytest.mark.slow
def test_a_cancelled_call_closes_its_sandboxes_what_is_no_message_is_passed_over_and_the_next_one_is_answered(
    words, model, project
):
    with in_the_middle(words, model, project) as line:
        line.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        wait(lambda: not sandboxes_of(line), 10, "sandboxes of a cancelled call")
        model.held.set()
        for text in ("this is no JSON", "[]", '{"jsonrpc": "2.0", "id": 5}', "\ufffd\x00", "1" * 100_000):
            line.send(text)
        line.call(2, "generate_tests", workspace=".", instruction=INSTRUCTION)
        assert len(line.answer(2)["result"]["structuredContent"]["tests"]) == 3
        line.process.stdin.close()
        assert line.process.wait(20) == 0


def test_a_missing_extra_is_told_with_the_command_that_installs_it(project):
    code = "import sys; sys.modules['mcp'] = None\nfrom hc_ray.cli.app import main; main()"
    done = ran(sys.executable, "-c", code, "mcp", cwd=project)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == [
        "hc-ray: hc-ray mcp needs the extra `mcp`; install it with: pip install 'hc-ray[mcp]'"
    ]


async def test_a_refused_key_is_one_line_and_is_not_told(words, project):
    key = secrets.token_hex(20)
    async with connected(*words, cwd=project, MY_KEY=key) as session:
        answer = await asked(session, "decompose", instruction="Write a file.")
    assert isinstance(answer, str) and "MY_KEY" in answer and key not in answer and "\n" not in answer
