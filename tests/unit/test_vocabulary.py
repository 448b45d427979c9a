import json
from pathlib import Path
from typing import Any

import pytest

from hc_ray.blind.sealing import vault
from hc_ray.domain.config import AgentName, SolverConfig, TestgenConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.task import Task
from hc_ray.tasks.vocabulary import Vocabulary, benchmark, distinctive, is_ordinary, words_of
from tests.fakes.answers import wavers
from tests.fakes.tasks import TOML, make_task
from tests.fakes.trial import Bench
from tests.vocabulary import check

STARTER = check.ROOT / "configs" / "tasks" / "starter"


def test_words_are_taken_out_of_identifiers_and_names_are_found_whole_in_either_spelling():
    assert words_of("aFancyHoneycomb honey_badgers\\nWidget 12 2041 x20417x") == {
        "honeycomb", "badgers", "widget", "2041", "20417",
    }  # fmt: skip
    known = Vocabulary({"zymogrel-fix": [], "sort-names": [], "greeting": []})
    assert known.found("see zymogrel_fix") == {"zymogrel": "zymogrel-fix", "zymogrel_fix": "zymogrel-fix"}
    assert list(known.found("the Sort-Names task")) == ["sort-names"]
    assert known.found("def sort_names(greeting): ...  # my-sort-namesake") == {}


@pytest.mark.parametrize("word", ["temperatures", "batching", "planned", "totals", "colour", "subprocess", "8080",
                                  "catalogue", "customization", "libraries", "strcspn"])  # fmt: skip
def test_words_of_the_standard_library_are_ordinary_in_every_form(word):
    assert is_ordinary(word)


def test_a_word_of_one_task_is_its_own_also_in_two_datasets_and_that_of_two_tasks_nobodys():
    tasks = {"one": ["the zorbelian sums 7129", "qwertaxi"], "two": ["qwertaxi and a library"], "zymogrel-x": []}
    assert distinctive(tasks) == {"zorbelian": "one", "7129": "one", "zymogrel": "zymogrel-x"}
    known = Vocabulary({"one": ["qwertaxi"], "two": ["zorbelian"]}, {"zorbelian-x": [], "three": []})
    assert known.words == {"qwertaxi": "one", "zorbelian": "two"}
    assert known.found("zorbelian_x") == {"zorbelian": "two", "zorbelian_x": "zorbelian-x"}


@pytest.fixture(scope="module")
def known():
    return check.vocabulary([STARTER])


def test_this_tree_holds_no_words_of_tasks_and_terminal_bench_and_every_starter_task_are_known(known):
    assert check.faults(check.ROOT, known) == []
    assert len(benchmark()) == 89 and {"circuit-fibsqrt", "write-compressor"} <= set(benchmark())
    everyone = [*benchmark(), *(path.parent.name for path in STARTER.glob("*/task.toml"))]
    assert [name for name in everyone if not known.found(name) and not is_ordinary(name)] == []


@pytest.mark.parametrize(
    "text", ["# as in log-summary-date-ranges", "x = 'fibsqrt'", "COREWARS = 1", "# see c-histogram"]
)
@pytest.mark.parametrize("place", ["hc_ray/agent/a.py", "hc_ray/agent/prompts/a.txt",
                                   "hc_ray/agent/shipped_skills/a/SKILL.md", "actors/hc_ray_actors/a.py",
                                   "configs/a.yaml", "scripts/a"])  # fmt: skip
def test_a_seeded_violation_is_found_wherever_it_stands(tmp_path, known, place, text):
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text("nothing here\n")
    assert check.faults(tmp_path, known) == []
    (tmp_path / place).write_text(f"nothing here\n{text}\n")
    (found, *_) = check.faults(tmp_path, known)
    assert found.startswith(f"{place}: ")


def sealed(root: Path, name: str) -> Task:
    asked = "Write `add.py` with a function `add(a, b)` that returns the sum of its two numbers, as for a csv file.\n"
    make_task(root / "dataset", name, toml=TOML + f'[task]\nname = "some/{name}"\n', instruction=asked)
    (task,) = vault.seal(root / "dataset", root / "public", root / "sealed").tasks
    return task


def works(prompt: Prompt) -> str:
    """A model that wavers, in every role and with tools too: it writes the file wrongly and then anew."""
    said = prompt.messages[-1].content if prompt.messages else ""
    if prompt.role == "decomposer":
        parts = [{"name": name, "goal": f"Do {name}.", "hint": ""}
                 for name in ("one", "two", "three")]  # fmt: skip
        return json.dumps({"parts": parts})
    if prompt.purpose == "turn":
        turn = sum(message.role == "assistant" for message in prompt.messages)
        wrong = f"```write add.py\ndef add(a, b):\n    return a {'-+'[len(said) % 2]} b\n```"
        return ["```sh\npwd; ls\n```", wrong][turn] if turn < 2 else "```submit\n```"
    return wavers(prompt)


async def asked_of(task: Task, agent: AgentName, knobs: dict[str, Any]) -> list[str]:
    """Every prompt of a trial that fails, the folders of its sandboxes aside. Lineages work side by side: their prompts
    come in no order."""
    bench = Bench(works, task=task, profile=Profile(), verdicts=(False,))
    config = SolverConfig(max_rounds=2, testgen=TestgenConfig(budget_tokens=4000), **knobs)
    await bench.solve(agent, config, tokens=20_000)
    asked = [prompt.model_dump_json() for prompt in bench.prompts]
    for sandbox in bench.place.made:
        asked = [prompt.replace(str(sandbox.root), "") for prompt in asked]
    return sorted(asked) if config.agent_style == "loop" else asked


LOOP: dict[str, Any] = {"agent_style": "loop", "max_answer_tokens": 600}
PARTS, AGAIN, SKILLS = {"decompose": "model"}, {"refinement": 2}, {"use_skills": True}


@pytest.mark.parametrize(("agent", "knobs", "shown"), [
    ("raw", {}, ()), ("best_of_n", {}, ()), ("raw", SKILLS, ("csv.DictReader",)),
    ("hc", {}, ('"role":"tester"',)), ("raw", LOOP, ("Not submitted yet",)), ("hc", LOOP, ("Not submitted yet",)),
    ("hc", PARTS, ('"role":"decomposer"', "Do one.")), ("hc", AGAIN, ("was not accepted",)),
    ("hc", SKILLS, ("csv.DictReader",)),
    ("hc", LOOP | SKILLS, ('"purpose":"turn"', "csv.DictReader")),
])  # fmt: skip
async def test_renaming_a_task_and_its_folder_changes_no_prompt(home, tmp_path, agent, knobs, shown):
    first, second = sealed(tmp_path / "a", "zymogrel-first"), sealed(tmp_path / "b", "other-name")
    assert first.name != second.name
    asked = await asked_of(first, agent, knobs)
    assert asked and asked == await asked_of(second, agent, knobs)
    assert [one for one in shown if not any(one in prompt for prompt in asked)] == []
    assert not [prompt for prompt in asked if "zymogrel" in prompt]
