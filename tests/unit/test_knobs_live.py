"""Every knob is live: turned where the table says that it has an effect, a real trial of ``hc`` sends other requests or
decides otherwise; where the table says that it has none, nothing changes."""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from hc_ray.agent.role import RoleModel
from hc_ray.climb.knobs import KNOBS, Site
from hc_ray.domain.config import BudgetConfig, SolverConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.suite import Suite
from hc_ray.domain.trial import seed_of
from hc_ray.domain.waiting import Once
from hc_ray.engines.scripted import ScriptedModel
from tests.fakes.suites import call_test
from tests.fakes.trial import TASK, Bench, scripted

SCRIPT = TASK.model_copy(update={"instruction": "Write `/app/run.sh`.\n\n```console\n$ sh run.sh 2\n4\n```\n"})
BODIES = ("return n + 5", "return n.missing", "return n *", "return n + 5", "return n + 6", "return n + 7", "return -n")
"""By the index of a fresh candidate. None is right, so that no search is complete; one crashes, one does not load, and
one is another's duplicate."""
LINES = "3) == 6\nassert double(0) == 0\nassert double(7) == 14\nassert double(1) == 2\n"
CHECK = 'def test_{}():\n    """{} | "It must return twice the given number." """\n    assert double({}) == {}\n\n\n'
CHECKS = "```python\nimport os, sys\n\nsys.path.insert(0, os.getcwd())\nfrom double import double\n\n\n" + "".join(
    CHECK.format(name, category, n, 2 * n)
    for name, category, n in (
        ("a", "happy_path", 4), ("b", "happy_path", 8), ("c", "happy_path", 9), ("d", "boundary", 0),
        ("e", "boundary", 1),
    )
) + "```\n"  # fmt: skip
PARTS = json.dumps({"parts": [{"name": n, "goal": f"Do {n}.", "hint": ""} for n in "xyz"]})
SUMMARY = json.dumps({"approach": "a", "done": "b", "verified": "c", "doubts": "d"})
SAID = {
    "tests": CHECKS, "own_tests": CHECKS, "summary": SUMMARY, "tournament": "1", "decompose": PARTS,
    "reading": "\n".join(f'test_{one}: right | "It must return twice the given number." | so' for one in "abcde"),
}  # fmt: skip
DIVIDED = tuple(call_test(f"t{n}", f"double({n})", str(n + (5 if n < 4 else 6)), path="double.py", confidence=0.5)
                for n in range(6))  # fmt: skip
"""A suite whose most passes and largest agreement are two candidates."""
ECHOES = {"state", "key", "selector", "why", "scores", "confidence", "agreement", "tokens_left"}
"""What the journal says of settings themselves, or of sums of them: no decision."""
STYLES = ("direct", "loop")
Style = str


class Case(NamedTuple):
    key: str
    turned: Any
    at: Mapping[str, Any] = {}
    """Settings of the site that differ from the usual ones."""
    world: str = ""
    """What else is unusual: a ``script`` as the task, a ``divided`` suite, ``level`` candidates, a ``slow`` model, the
    verdict ``no``."""


CASES = [
    Case("solver.agent_style", None), Case("solver.actions", "calls"), Case("solver.observation_chars", 1000),
    Case("solver.tournament", True, {"repairs": 0}, "level"), Case("solver.use_skills", True, world="script"),
    Case("solver.temperatures", (0.4, 0.6, 0.8)), Case("solver.greedy", 2), Case("solver.plans", ("simple", "plain")),
    Case("solver.samples", 3), Case("solver.samples_max", 4), Case("solver.patience", 2),
    Case("solver.max_rounds", 2), Case("solver.max_turns", 4), Case("solver.repairs", 0),
    Case("solver.selector", "max_pass", {"repairs": 0}, "divided"), Case("solver.feedback", "full", world="divided"),
    Case("solver.feedback", "crashes", {"repairs": 0, "patience": 2}), Case("solver.hint", "Be brief."),
    Case("solver.decompose", "model"), Case("solver.testgen.tests_per_category_min", 5),
    Case("solver.testgen.tests_per_category_max", 2),
    Case("solver.testgen.tests_per_category_max", 2, {"testgen.style": "lines", "testgen.budget_tokens": 0}),
    Case("solver.testgen.rounds", 1), Case("solver.testgen.temperature", 0.8), Case("solver.testgen.gate", "off"),
    Case("solver.testgen.gate", "off", {"testgen.style": "lines", "testgen.budget_tokens": 0}),
    Case("solver.testgen.second_reading", False), Case("solver.command_seconds", 30.0),
    Case("solver.skill_tokens", 0, {"use_skills": True}, "script"), Case("solver.max_answer_tokens", 200),
    Case("solver.refinement", 1, world="no"), Case("solver.testgen.total_min", 24, {"testgen.style": "lines"}),
    Case("solver.testgen.total_min", 4, {"testgen.style": "files"}),
    Case("solver.testgen.total_max", 3, {"testgen.total_min": 2}), Case("solver.testgen.style", None),
    Case("solver.testgen.answer_tokens", 900), Case("solver.testgen.budget_tokens", 0),
    Case("solver.testgen.seconds", 0.05, world="slow"), Case("budget.tokens", 1200),
    Case("budget.lineage_tokens", 5000), Case("budget.timeout_multiplier", 0.0002, world="slow"),
    Case("budget.default_timeout_sec", 0.2, world="slow"),
    Case("solver.temperatures", (0.4, 0.6, 0.8), {"max_rounds": 2, "samples": 1, "samples_max": 1, "greedy": 2}),
]  # fmt: skip
USUAL = {
    style: {
        "solver": {"agent_style": style, "plans": ("plain", "simple"), "greedy": 1, "samples": 2, "samples_max": 3,
                   "max_rounds": 3, "patience": 5, "repairs": 1, "max_answer_tokens": 400},
        "testgen": {"style": tests, "budget_tokens": 20_000},
        "budget": {"tokens": 200_000},
    }
    for style, tests in (("direct", "lines"), ("loop", "files"))
}  # fmt: skip
WITHOUT = {
    "style loop": {"agent_style": "direct"},
    "style direct": {"agent_style": "loop"},
    "use_skills": {"use_skills": False},
    "more than one round": {"max_rounds": 1},
    "style direct or more than one round": {"agent_style": "loop", "max_rounds": 1},
    "style loop or more than one round": {"agent_style": "direct", "max_rounds": 1},
    "repairs, or new starts after more than one round": {"max_rounds": 1, "repairs": 0},
    "several candidates": {"agent_style": "loop", "max_rounds": 1, "repairs": 0},
    "several plans": {"plans": ("plain",)},
    "more than one fresh candidate": {"max_rounds": 1, "samples": 1},
    "more candidates than greedy ones": {"max_rounds": 1, "samples": 1},
    "a tester's budget": {"testgen.budget_tokens": 0},
    "test style files": {"testgen.style": "lines"},
    "test style lines": {"testgen.style": "files"},
    "test style lines or more than one round of tests": {"testgen.style": "files", "testgen.rounds": 1},
    "gate basic": {"testgen.gate": "off"},
}
"""Settings in which a trait of a site does not hold."""
OF_PLANNING = {"native tool calls", "profile capable"}
"""What a model can do, known before the first trial: a trial would send what it was told to."""


def settings(style, *more):
    found = {name: dict(own) for name, own in USUAL[style].items()}
    for key, value in (item for one in more for item in one.items()):
        *above, name = key.removeprefix("solver.").split(".")
        found[above[0] if above else "solver"][name] = value
    return SolverConfig(**found["solver"], testgen=found["testgen"]), BudgetConfig(**found["budget"])


def site(solver):
    return Site(solver=solver, profile=PROFILE, tools=True)


PROFILE = Profile(name="capable", form="completion", test_form="completion", bias_to_agreement=False,
                  temperature_best_single=0.2, context_tokens=32_000)  # fmt: skip
FRESH = [seed_of(TASK.digest, 0, "solver", "sample", index) for index in range(64)]


class Player(ScriptedModel):
    """Answers by the prompt alone, never by the order of arrival."""

    def __init__(self, world):
        self.world = world

    async def complete(self, prompt):
        if self.world == "slow":
            await asyncio.sleep(0.1)
        text = SAID.get(prompt.purpose) or (LINES if prompt.role == "tester" else self._work(prompt))
        self._answer = lambda prompt: text
        return (await super().complete(prompt)).model_copy(update={"finish_reason": "stop"})

    def _work(self, prompt):
        turn = sum(message.role == "assistant" for message in prompt.messages)
        index = FRESH.index(prompt.seed - turn) if prompt.seed - turn in FRESH else 6
        body = f"    {BODIES[min(index, 1) * 4 if self.world == 'divided' else index % len(BODIES)]}\n"
        if self.world == "level":
            body = f"    return n + {20 + index}\n"
        if self.world == "script":  # whose complaints would name a folder of this machine
            body = f"echo {index}\n"
        if prompt.purpose != "turn":
            return body if prompt.context.endswith("\n") else "\n" + body
        if turn in (0, 3):
            body = body if turn == 0 else "    return n + 9\n"
            return f"I work.\n```sh\nseq 900\n```\n```write double.py\ndef double(n):\n{body}```"
        return "```submit\n```"


@cache
def trace(style, solver, budget, world):
    """What a trial asked, and what it decided."""
    bench = Bench(scripted(""), task=SCRIPT if world == "script" else TASK, verdicts=(world != "no",))
    bench.role = RoleModel(Player(world), PROFILE, "m")
    if world == "divided":
        bench.shelf = Once(stored=lambda key: Suite(key=key, task_digest=TASK.digest, tests=DIVIDED))
    outcome = asyncio.run(bench.solve("hc", solver, budget=budget))
    decided = [(one.name, {key: value for key, value in one.detail.items() if key not in ECHOES})
               for one in bench.log.of("action")]  # fmt: skip
    decided += [outcome.chosen, outcome.stop_reason, outcome.bits]
    decided += [outcome.suite.tests, outcome.suite.gate] if outcome.suite else []
    return [one.prompt.model_dump_json(exclude={"context", "purpose"}) for one in outcome.exchanges], decided


def turned(case, solver):
    """None stands for the other of two options."""
    if case.turned is not None:
        return {case.key: case.turned}
    now = KNOBS[case.key].at(solver)
    return {case.key: next(one for one in KNOBS[case.key].options if one != now)}


def is_live(case, style, *more):
    return not KNOBS[case.key].lacks(site(settings(style, case.at, *more)[0]))


LIVE = [(case, style) for case in CASES for style in STYLES if case.key in KNOBS and is_live(case, style)]
DEAD = [(case, style, trait) for case, style in LIVE for trait in KNOBS[case.key].needs if trait not in OF_PLANNING
        and not is_live(case, style, WITHOUT[trait])]  # fmt: skip
named = {"ids": lambda one: one.key.removeprefix("solver.") if isinstance(one, Case) else one.replace(" ", "-")}


def test_every_knob_of_the_table_has_a_case_where_it_lives_and_one_where_it_does_not():
    assert {case.key for case, _ in LIVE} == {case.key for case in CASES} == set(KNOBS)
    needed = {(knob.key, trait) for knob in KNOBS.values() for trait in knob.needs if trait not in OF_PLANNING}
    assert {(case.key, trait) for case, _, trait in DEAD} == needed


@pytest.mark.parametrize(("case", "style"), LIVE, **named)
def test_a_knob_that_is_turned_where_it_lives_changes_a_request_or_a_decision(case, style):
    before = settings(style, case.at)
    after = settings(style, case.at, turned(case, before[0]))
    assert before != after and trace(style, *before, case.world) != trace(style, *after, case.world)


@pytest.mark.parametrize(("case", "style", "trait"), DEAD, **named)
def test_a_knob_that_is_turned_where_the_table_calls_it_dead_changes_nothing(case, style, trait):
    before = settings(style, case.at, WITHOUT[trait])
    after = settings(style, case.at, WITHOUT[trait], turned(case, before[0]))
    assert before != after and trace(style, *before, case.world) == trace(style, *after, case.world)
