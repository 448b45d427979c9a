"""hc-ray's roles as skills of Claude: made of what the roles themselves use, read by what reads their answers."""

import json
import re
import subprocess
import sys

import jsonschema
import pytest
import yaml

from hc_ray.agent import prompt_templates
from hc_ray.cli import claude_skills
from hc_ray.climb import meta_reasoner
from hc_ray.domain.prompt import Completion
from hc_ray.domain.task import Environment
from hc_ray.search import decompose
from hc_ray.selftests import file_tester
from hc_ray.selftests.coverage import quoted_in
from hc_ray.spec.reading import read_spec

NAMES = {"testgen", "decomposer", "evaluator", "meta-reasoner"}
TEMPLATES = {"testgen": ("tests_system", "tests_file"), "decomposer": ("decompose",), "evaluator": ("tests_reading",),
             "meta-reasoner": ("meta",)}  # fmt: skip
SKILLS = claude_skills.skills()
TEXTS = yaml.safe_load(claude_skills._TEXTS.read_text())
RIGHT = """\
def initials(text):
    return "".join(word[0].upper() for word in text.split())
"""
WRONG = "def initials(text):\n    return None\n"


def lines_of(template: str) -> list[str]:
    """Those that hold no place for something."""
    return [line for line in template.splitlines() if line.strip() and "$" not in line]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_skill_is_a_folder_as_claude_reads_it_and_a_schema_that_is_one(name):
    head, _, body = SKILLS[name]["SKILL.md"].removeprefix("---\n").partition("\n---\n")
    front = yaml.safe_load(head)
    assert front["name"] == name and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) and len(name) <= 64
    assert 0 < len(front["description"]) <= 1024 and "Use it" in front["description"] and body.strip()
    assert front.keys() <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert len(body.splitlines()) < 500 and set(SKILLS) == NAMES
    jsonschema.Draft202012Validator.check_schema(json.loads(SKILLS[name]["schema.json"]))


def test_the_prompts_are_the_roles_own_and_follow_them_when_they_change(monkeypatch):
    for name, templates in TEMPLATES.items():
        wanted = [line for one in templates for line in lines_of(prompt_templates.template(one))]
        assert wanted and [line for line in wanted if line not in SKILLS[name]["SKILL.md"]] == []
    real = prompt_templates.template
    monkeypatch.setattr(
        prompt_templates, "template", lambda name: real(name).replace("Write", "Draw").replace("Break", "Tear")
    )
    changed = claude_skills.skills()
    assert "Draw tests for the result" in changed["testgen"]["SKILL.md"]
    assert "Tear this work" in changed["decomposer"]["SKILL.md"]


def test_every_example_is_read_by_its_role_and_fits_its_schema(tmp_path):
    def fits(name: str, data: object) -> None:
        jsonschema.validate(json.loads(json.dumps(data)), json.loads(SKILLS[name]["schema.json"]))

    answers = {name: Completion(text=text["answer"]) for name, text in TEXTS.items()}
    task = TEXTS["testgen"]["task"]
    spec = read_spec(task, Environment())
    written = file_tester.read(answers["testgen"], spec)
    fits("testgen", written.model_dump(mode="json"))
    assert all(quoted_in(test.reasoning, task) for test in written.tests)
    readings = file_tester.read_readings(answers["evaluator"])
    assert readings.keys() == {test.subject.function for test in written.tests}
    assert all(quoted_in(one.quote, task) for one in readings.values())
    fits("evaluator", {name: one.model_dump() for name, one in readings.items()})
    assert len(decompose.read(answers["decomposer"])) == 3 and meta_reasoner.read(answers["meta-reasoner"]).knob
    for name in ("decomposer", "meta-reasoner"):
        fits(name, json.loads(answers[name].text))
    code = re.search(r"```python\n(.*?)```", answers["testgen"].text, re.S)
    (tmp_path / "test_it.py").write_text(code[1] if code else "")
    for solution, passes in ((RIGHT, True), (WRONG, False)):
        (tmp_path / "solution.py").write_text(solution)
        words = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."]
        ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (ran.returncode == 0) == passes, ran.stdout


def test_the_command_writes_them_once_more_where_nothing_differs_and_never_over_a_users_own(tmp_path, hc_ray):
    export = ["skills", "export", "--claude"]
    written = hc_ray(*export, tmp_path, "--json")["written"]
    assert len(written) == 12 and str(tmp_path / ".claude/skills/testgen/SKILL.md") in written
    assert {one.name for one in (tmp_path / ".claude" / "skills").iterdir()} == NAMES
    assert claude_skills.export(tmp_path)
    mine, gone = tmp_path / ".claude/skills/testgen/SKILL.md", tmp_path / ".claude/skills/decomposer/SKILL.md"
    mine.write_text("mine")
    gone.unlink()
    refused = hc_ray(*export, tmp_path, code=2)
    assert "pass --force to replace them" in refused and str(mine) in refused
    assert len(refused.splitlines()) == 1 and mine.read_text() == "mine" and not gone.exists()
    hc_ray(*export, tmp_path, "--force")
    assert mine.read_text() == SKILLS["testgen"]["SKILL.md"] and gone.exists()
    (tmp_path / "file").write_text("")
    assert len(hc_ray(*export, tmp_path / "file", code=2).splitlines()) == 1
