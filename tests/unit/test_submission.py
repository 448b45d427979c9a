import json
import time
from typing import Any

import pytest

from hc_ray.agent.budget import Asking, Clock, Purse
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.agent.workspace import _state
from hc_ray.domain.candidate import Candidate, Submission
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.filetree import Member, pack
from hc_ray.domain.prompt import Completion, Malformed, ToolCall
from hc_ray.domain.suite import Cell
from hc_ray.domain.task import Environment, Task
from hc_ray.search.direct_agents import DirectAgents
from hc_ray.search.lineages import Run
from hc_ray.search.pool import files_digest, normal_form
from hc_ray.search.search import Search
from hc_ray.spec.reading import read_spec
from tests.fakes.folder_place import FolderPlace
from tests.fakes.listeners import Watcher
from tests.fakes.suites import call_test
from tests.fakes.trial import INSTRUCTION, Bench, scripted

TEST = call_test("t", "double(1)", "2", path="double.py")


def searching(*bodies: dict[str, str], instruction: str = INSTRUCTION) -> tuple[Search, Watcher]:
    """A search whose round has brought candidates with these files, and nothing else yet."""
    task = Task(name="t", digest="ab" * 32, instruction=instruction, environment=Environment())
    log, config, solver = Watcher(), SolverConfig(), Bench(scripted("")).role

    async def judge(submission: Submission) -> bool:
        return False

    search = Search(
        task=task, spec=read_spec(instruction, task.environment), config=config, asking=Asking(solver, Purse(6000)),
        judge=judge, events=log, clock=Clock(60),
        seed=0, forks=SandboxForks(FolderPlace(quick=True), task, "t"), name="t", lineage_tokens=1500,
    )  # fmt: skip
    shared: dict[str, Any] = {"round": 1, "seed": 0, "temperature": 0.0, "form": "completion", "plan": "plain"}
    search.pool.candidates += [Candidate(id=f"c1.{i}", slot=i, files=files, digest=files_digest(files), **shared)
                               for i, files in enumerate(bodies)]  # fmt: skip
    return search, log


async def test_who_passes_most_of_what_was_run_is_handed_in_and_equal_files_not_a_second_time():
    search, log = searching({}, {"double.py": "x = 1\n"}, {"double.py": "x = 2\n"}, {"double.py": "x = 3\n"})
    search.pool.tests = (TEST,)
    failed, passed = (Cell(outcome="fail"),), (Cell(outcome="pass"),)
    search.pool.rows = {"c1.1": failed, "c1.2": passed, "c1.3": passed}
    assert await search.hand_in() is False
    assert log.actions("submit")[0].detail["candidate"] == "c1.2" and search.first_row == (Cell(outcome="pass"),)
    await search.forks.close()
    search, _ = searching({"double.py": "x = 1\n"}, {"double.py": "x = 1  # said again\n"}, {"double.py": "x = 2\n"})
    assert await search.hand_in() is False
    for other, verdict in (("c1.1", None), ("c1.2", False)):
        assert search.selection is not None
        search.selection = search.selection.model_copy(update={"chosen": other})
        assert await search.hand_in() is verdict
    assert len(search.submissions) == 2
    await search.forks.close()


async def test_how_long_a_verdict_takes_is_no_time_of_the_trial():
    """Else slow hidden tests would leave less time for what comes after it."""
    search, _ = searching({"double.py": "x = 1\n"})
    took = 0

    async def judge(submission: Submission) -> bool:
        nonlocal took
        took = 500
        return False

    search.judge, search.clock = judge, Clock(60, lambda: -took)
    await search.hand_in()
    assert took and search.clock.left > 0
    await search.forks.close()


async def test_what_a_finished_lineage_is_asked_is_paid_of_what_the_trial_has_left():
    search, _ = searching({"double.py": "x = 1\n"})
    asking = Asking(search.asking.role, Purse(1500, outer=search.purse))
    search.purse.charge(5990, 0, 0.0)
    assert await Run(search.schedule.fresh(0, round=1, slot=0), asking, search).ask("summary", "?") == ""
    assert asking.purse.left == search.purse.left == 10


async def test_a_repair_that_names_one_file_of_several_keeps_the_others():
    search, _ = searching({"a.py": "x = 1\n", "b.py": "y = 1\n"}, instruction="Mend it.")
    search.asking = Asking(Bench(lambda prompt: "b.py\n```python\ny = 2\n```\n").role, Purse(6000))
    slot = search.schedule.repair(search.pool.candidates[0], round=2, slot=0)
    (made,) = await search.ask([(slot, search.prompt(slot))])
    assert made.files == {"a.py": "x = 1\n", "b.py": "y = 2\n"}


async def test_more_copies_of_a_best_that_fails_make_it_no_better():
    search, _ = searching({"double.py": "x = 1\n"}, {"double.py": "x = 2\n"})
    search.pool.tests, agents, idle = (TEST,), DirectAgents(search), []
    for one in ("c1.0", "c1.1"):
        search.pool.rows[one] = (Cell(outcome="fail", observed="3"),)
        search.choose("max_pass")
        idle.append(agents._state(None).idle)
        search.pool.candidates.append(search.pool.candidates[0].model_copy(update={"id": f"{one}+"}))
    assert idle == [0, 1]


@pytest.mark.parametrize(("same", "path", "one", "other"), [
    (True, "m.py", "def f():\n  return 1 # one\n", "def f():\n\n    return 1"),
    (True, "m.py", 'def f():\n    """Docs."""\n    return 1\n', "def f():\n    return 1\n"),
    (True, "m.py", 'def f():\n    """Docs."""\n', "def f():\n    pass\n"), (True, "m.txt", "a \n", "a"),
    (False, "m.py", "x = 1", "x = 2"), (False, "m.py", "x = (", "y = ("),
    (False, "m.py", "def f(a):\n    return a\n", "def f(b):\n    return b\n"),
    (False, "m.py", "def f():\n    a = 1\n    b = 2\n    return a\n", "def f():\n    a = 1\n    b = 2\n    return b\n"),
    (False, "s.sh", "#!/bin/sh\necho hi\n", "#!/bin/bash\necho hi\n"),
])  # fmt: skip
def test_what_changes_nothing_makes_no_other_candidate_and_what_changes_something_does(same, path, one, other):
    assert (files_digest({path: one}) == files_digest({path: other})) is same


def test_names_that_are_no_utf_8_are_told_in_escapes_and_many_empty_folders_in_a_moment():
    folders = [Member(f"/srv/{number}", "folder") for number in range(10_000)]
    odd = [Member("/app/\udcff", "file", data=b"x"), Member("/app/l", "link", target="\udcfe"), *folders]
    started = time.monotonic()
    files = _state(pack(odd, ["/app/\udcfd"]).tar, "/app/").files
    assert time.monotonic() - started < 15
    assert "a file of 1 bytes" in files["\\udcff"] and "a link to \\udcfe" in files["l"] and "\\udcfd" in files
    assert len(files) == 10_003 and json.dumps(files).isascii()


def test_half_a_character_in_an_answer_is_told_in_an_escape():
    half, call = "\ud800", ToolCall(id="\ud800", name="\ud800", arguments="\ud800")
    for told in (Completion(text=half, reasoning=half, tool_calls=(call,)), Malformed(reason=half, text=half)):
        assert "ud800" in told.model_dump_json()


@pytest.mark.parametrize("text", ["", "\0", "def f(:", "(" * 300, "\\", '"""', "#", "/*", "'"])
@pytest.mark.parametrize("path", ["a.py", "a.sh", "a.c", "a"])
def test_every_text_has_a_normal_form(path, text):
    assert normal_form(path, text) == normal_form(path, text)
