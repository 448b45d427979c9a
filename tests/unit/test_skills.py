import json
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from hc_ray.agent import skills as module
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.prompt_formats import ask
from hc_ray.agent.skill_learning import Lesson, Solved, common, lessons
from hc_ray.agent.skills import SHIPPED, Skill, installed, know_how, prompts_of, read_skill, triggered
from hc_ray.domain.config import Form, SolverConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import Profile
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.trial import TrialKey
from hc_ray.engines.scripted import count_pieces
from hc_ray.spec.reading import read_spec
from hc_ray.tasks.vocabulary import Vocabulary
from hc_ray_actors import trials, verifiers
from hc_ray_actors.driver import task_choice
from hc_ray_actors.jobs import learning
from tests.fakes.sweepdir import add_trial, sweep
from tests.fakes.tasks import make_task

SKILLS = installed([SHIPPED])
CSV = "Write `/app/total.py` with `def total(path: str) -> int` that reads a csv file and sums its last column."
PATTERN = "Write one regular expression to `/app/pattern.txt` that matches every time of day, such as 23:59."


async def pieces(text: str) -> int:
    return count_pieces(text)


def names(instruction: str, skills: tuple[Skill, ...] = SKILLS) -> list[str]:
    return [skill.name for skill in triggered(skills, read_spec(instruction, Environment()))]


async def told(instruction: str, skills: tuple[Skill, ...], budget: int) -> str:
    spec = read_spec(instruction, Environment())
    return await know_how(skills, spec, deliverable_of(spec), count=pieces, budget=budget)


def many(count: int) -> tuple[Skill, ...]:
    """So many installed skills, every third of which any instruction calls for."""
    return tuple(
        Skill(name=f"made-{i:03}", description=f"What one knows of the {i}-th trade and its tools.",
              body="\n".join(f"- line {line} of trade {i}" for line in range(4)),
              triggers=(r"\bfile\b" if i % 3 == 0 else r"\bnever said\b",))
        for i in range(count)
    )  # fmt: skip


def test_the_shipped_skills_are_of_five_trades_and_an_instruction_calls_for_the_most_fitting_first():
    shipped = ["c-build", "pytest-basics", "python-library", "regex-syntax", "shell-pitfalls"]
    assert [skill.name for skill in SKILLS] == shipped == sorted(path.name for path in SHIPPED.iterdir())
    assert names(PATTERN)[0] == "regex-syntax" and names(CSV) == ["python-library"]
    assert names("Write a C program `/app/sum.c`, built with gcc.")[0] == "c-build"
    assert names("Write a shell script `/app/run.sh` for bash.")[0] == "shell-pitfalls"
    assert names("Say hello in `/app/hello.txt`.") == []


def test_a_trigger_is_the_suffix_of_a_named_file_or_a_regular_expression_for_the_instruction():
    both = tuple(Skill(name=f"by-{i}", description="d", triggers=(one,), body="b")
                 for i, one in enumerate(("file:csv", "zym.grel")))  # fmt: skip
    assert names("Fill `/app/a.CSV`.", both) == ["by-0"] and names("Feed the ZYMOGREL.", both) == ["by-1"]
    assert names("It is file:csv, or a csv.", both) == []


@pytest.mark.parametrize("text", ["no front matter", "---\nname: a\n---\nbody", "---\n[\n---\nbody",
                                  "---\nname: Bad Name\ndescription: d\ntriggers: [a]\n---\nbody",
                                  "---\nname: ab\ndescription: d\ntriggers: ['(']\n---\nbody"])  # fmt: skip
def test_a_skill_that_cannot_be_used_is_refused_with_its_file_and_reason(tmp_path, text):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "SKILL.md").write_text(text)
    with pytest.raises(ConfigError, match=r"one/SKILL\.md: not a skill"):
        installed([tmp_path])


@pytest.mark.parametrize("instruction", [CSV, PATTERN, "Write a C program `/app/sum.c` that sorts a csv file.",
                                         "Write a shell script `/app/run.sh` that sorts a csv file."])  # fmt: skip
@pytest.mark.parametrize("budget", [0, 40, 150, 600])
async def test_in_no_form_do_skills_add_more_to_a_prompt_than_the_budget_and_they_come_whole(instruction, budget):
    deliverable = deliverable_of(read_spec(instruction, Environment()))
    hint = await told(f"{instruction} file", (*SKILLS, *many(200)), budget)
    assert hint.count("- line 0 of") == hint.count("- line 3 of")
    assert {int(number) % 3 for number in re.findall(r"of trade (\d+)", hint)} <= {0}
    sizes = []
    for form in get_args(Form):
        asked = [ask(instruction, deliverable, form=form, plan="plain", hint=one, seed=0, temperature=0, max_tokens=9,
                     profile=Profile()) for one in ("", hint)]  # fmt: skip
        sizes += [count_pieces(b) - count_pieces(a) for a, b in
                  [[one.text or one.messages[-1].content for one in asked]]]  # fmt: skip
    assert max(sizes) <= budget < max(sizes) + 30


ANSWER = "import csv\n\n\ndef f(path):\n    with open(path) as f:\n        return [row for row in csv.reader(f)]\n"


def solved(count: int = 6, *, tasks: int = 3, failed: int = 0, kind: str = "csv", text: str = ANSWER) -> list[Solved]:
    return [Solved(task=f"t{i % tasks}", kind=kind, passed=i >= failed, files={"a.py": text}, plan="edge_first")
            for i in range(count)]  # fmt: skip


@cache
def nobody() -> Vocabulary:
    return Vocabulary({"zymogrel-x": []})


def lesson(trials: list[Solved], known: Vocabulary | None = None, skills: tuple[Skill, ...] = SKILLS) -> Lesson:
    (one,) = lessons(trials, known or nobody(), skills, {"sweep": "s"})
    return one


def test_a_kind_is_learned_from_five_good_trials_of_two_tasks_and_told_is_what_half_of_them_share():
    assert lesson(solved(5)).skill and not lesson(solved(4)).skill and not lesson(solved(6, tasks=1)).skill
    assert not lesson(solved(10, failed=1)).skill and lesson(solved(11, failed=1)).skill
    said = common(solved())
    assert "They import csv." in said and "They open files in a with block." in said
    lonely = [*solved(5), Solved(task="t9", kind="csv", passed=True, files={"a.py": "import json\n"})]
    assert "They import json." not in common(lonely)


def test_a_kind_that_a_skill_covers_gets_its_next_version_and_another_suffix_a_skill_of_its_own():
    first = lesson(solved(kind="sh")).skill
    assert first and (first.name, first.version) == ("shell-pitfalls", 2)
    before = next(one for one in SKILLS if one.name == "shell-pitfalls")
    assert first.body.startswith(before.body) and first.triggers == before.triggers
    again = lesson(solved(kind="sh"), skills=(first,))
    assert again.skill is None and "already" in again.why
    third = lesson(solved(kind="sh", text="import re\n"), skills=(first,)).skill
    assert third and third.version == 3 and len(third.provenance) == 2
    assert "They import re." in third.body and "They import csv." not in third.body
    joined, own = lesson(solved(kind="json")).skill, lesson(solved(kind="py")).skill
    assert joined and (joined.name, joined.version) == ("python-library", 2) and "They import csv." in joined.body
    assert own and (own.name, own.version, own.triggers) == ("py-files", 1, ("file:py",))
    suffixes = [one for skill in SKILLS for one in skill.triggers if one.startswith("file:")]
    assert len(set(suffixes)) == len(suffixes), "two shipped skills of one suffix"


@pytest.mark.parametrize("kind", ["", "a/b", "7z", "Makefile"])
def test_of_tasks_that_ask_for_no_file_of_one_suffix_nothing_is_learned(kind):
    found = lesson(solved(kind=kind))
    assert found.skill is None and "a file of one known suffix" in found.why


def finished(folder: Path, answer: str = ANSWER, **config: Any) -> Path:
    """A finished sweep of ``hc`` on two tasks, all passed, with what its trials leave."""
    texts = {"zymogrel-one": CSV, "two": CSV.replace("sums", "counts")}
    for name, text in texts.items():
        make_task(folder / "dataset", name, instruction=text)
    sealed = verifiers.seal(folder / "dataset", folder / "public", folder / "sealed")
    store = sweep(dataset=str(folder / "dataset"), **config)
    for number in range(6):
        task = sealed.tasks[number % 2]
        trial = add_trial(store, task.name, "hc", True, seed=number)
        store.write(f"trials/{trial}/config.json", json.dumps({"task_digest": task.digest, "agent": "hc"}).encode())
        store.write(f"trials/{trial}/agent/trajectory.json", json.dumps({"extra": {"chosen": "c1.0"}}).encode())
        handed = [{"id": "c1.0", "files": {"total.py": answer}, "plan": "steps"}]
        store.write(f"trials/{trial}/agent/candidates.json", json.dumps(handed).encode())
    return store.save(folder / "out")


def test_a_sweep_on_dev_teaches_a_skill_with_its_provenance(home, tmp_path, hc_ray):
    out = finished(tmp_path)
    (kind,) = hc_ray("skills", "learn", out, "--json")["kinds"]
    assert (kind["kind"], kind["trials"], kind["tasks"], kind["rate"]) == ("py", 6, 2, 1.0)
    skill = read_skill(home / "learned" / "py-files")
    assert (skill.name, skill.version) == ("py-files", 1) and "They import csv." in skill.body
    assert skill.provenance[0]["trials"] == 6 and len(skill.provenance[0]["tasks_digests"]) == 2
    assert "zymogrel" not in skill.text
    listed = hc_ray("skills", "list", "--json")["skills"]
    assert [one["name"] for one in listed if one["learned"]] == ["py-files"] and len(listed) == 6
    assert [one.name for one in module.installed()] == [one["name"] for one in listed]
    hc_ray("skills", "learn", out, "--json")
    assert read_skill(home / "learned" / "py-files") == skill


def test_nothing_is_learned_from_a_holdout_or_where_there_is_no_sweep(tmp_path, hc_ray):
    store = sweep(dataset=str(tmp_path))
    data = json.loads(store.read("sweep.json"))
    data["config"]["split"] = "holdout"
    store.write("sweep.json", json.dumps(data).encode())
    said = hc_ray("skills", "learn", store.save(tmp_path / "out"), "--to", tmp_path / "learned", code=2)
    assert "from dev only" in said and not (tmp_path / "learned").exists()
    assert "no sweep.json" in hc_ray("skills", "learn", tmp_path, code=2)


@pytest.mark.parametrize(("hint", "named"), [
    ("Mind the zymogrel.", "zymogrel"), ("As in sort-them.", "sort-them"), ("Mind circuit-fibsqrt.", "fibsqrt"),
    ("Mind Corewars and empty input.", "corewars"), ("As for winning_avg_corewars.", "corewars"),
])  # fmt: skip
def test_a_hint_that_speaks_of_one_task_of_the_dataset_or_of_terminal_bench_is_refused(hint, named):
    said = {"sort-them": "Sort it.", "other": "Feed the zymogrel.", "third": "Sort it, with corewars and fibsqrt."}
    tasks = [Task(name=f"x/{name}", digest="a" * 64, instruction=text, environment=Environment())
             for name, text in said.items()]  # fmt: skip
    with pytest.raises(ConfigError, match=named):
        task_choice.hint_is_general(hint, tasks)
    task_choice.hint_is_general("Mind empty input and sort twice.", tasks)


def test_no_skill_speaks_of_a_task_of_terminal_bench(home, tmp_path):
    answer = "import json.corewars.fibsqrt\nimport math\n"
    out = finished(tmp_path, answer).rename(tmp_path / "circuit-fibsqrt")
    (taught,) = learning.learn(str(out), tmp_path / "learned")
    assert taught.skill and "They import math." in taught.skill.body and "1 lines contained" in taught.why
    assert not re.search("fibsqrt|corewars", taught.skill.text)


def test_installed_skills_are_part_of_the_key_of_a_trial_that_uses_them_which_runs_nowhere_else(home):
    plain, before = prompts_of(SolverConfig()), prompts_of(SolverConfig(use_skills=True))
    for used in (False, True):
        solver = SolverConfig(use_skills=used)
        key = TrialKey(task="t", task_digest="a" * 64, agent="hc", solver=solver, seed=0, models={},
                       prompts={"solver": prompts_of(solver)}, sandbox="fake", grading="isolated")  # fmt: skip
        trials._has_the_planned_skills(key)
    (home / "learned" / "x").mkdir(parents=True)
    (home / "learned" / "x" / "SKILL.md").write_text(many(1)[0].text)
    assert plain == prompts_of(SolverConfig()) != before != prompts_of(SolverConfig(use_skills=True))
    with pytest.raises(ConfigError, match="planned with"):
        trials._has_the_planned_skills(key)
