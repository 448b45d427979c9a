from dataclasses import replace
from pathlib import Path

import pytest

from hc_ray.agent.role import RoleModel, together
from hc_ray.cli.config_loader import load_config, with_testers
from hc_ray.domain.config import EngineConfig, SolverConfig, SweepConfig, TestgenConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.suite import GateVerdict, Suite
from hc_ray.domain.task import Environment, Task
from hc_ray.reports.terminal import tell
from hc_ray.reports.trial_text import suite_sections
from hc_ray.reports.trial_view import told_suite
from hc_ray.selftests.suite_writer import suite_key
from tests.fakes.screen import said
from tests.fakes.suites import call_test
from tests.fakes.testers import a_tester, suite_of

TASK = Task(name="t", digest="0" * 64, instruction="x", environment=Environment())


async def asked_of(reply: str, least: int = 2) -> tuple[list[Prompt], Suite]:
    """What a tester that always says the same of a category is asked in three rounds."""
    asked: list[Prompt] = []

    def answer(prompt: Prompt) -> str:
        asked.append(prompt)
        return reply.replace("#", str(len(prompt.purpose)))

    return asked, await suite_of(a_tester(answer), rounds=3, tests_per_category_max=6, tests_per_category_min=least)


async def test_a_round_is_told_what_the_last_one_left_out_and_there_is_none_where_nothing_is_short():
    asked, suite = await asked_of("", least=5)
    texts = [prompt.text or "" for prompt in asked]
    assert "Fewer than 5 tests of: happy_path, boundary, edge_case." in suite.reflections[0]
    assert any(suite.reflections[0] in text for text in texts) and len({prompt.temperature for prompt in asked}) >= 3
    asked, suite = await asked_of("#1) == 2\nassert f(-#) == 0\nassert f(9#) == 18\n")
    assert len(asked) == 3 and len(suite.reflections) == 1


async def test_a_suite_tells_which_categories_stayed_thin_and_which_sentences_it_covers() -> None:
    _, suite = await asked_of("")
    assert suite.covered is not None and 0 < suite.covered < 1
    assert any(line.startswith("No model was asked for invalid_input tests:") for line in suite.assumptions)
    assert any(line.startswith("Round 1:") and "anything: It returns twice n." in line for line in suite.reflections)
    encoded = {one.sentence: suite.matrix[one.id] for one in suite.requirements}
    assert set(encoded) > {test.sentence for test in suite.tests}
    assert all(test.id in encoded[test.sentence] for test in suite.tests) and () in encoded.values()


def writer(label: str, *calls: str, asked: list[str] | None = None) -> RoleModel:
    """A tester that only knows these calls; it adds its label to ``asked`` for every question."""

    def answer(prompt: Prompt) -> str:
        if asked is not None:
            asked.append(label)
        return "\nassert f(".join(f"{call}) == {int(call) * 2}" for call in calls)

    return a_tester(answer, label=label)


async def both_of(*testers: RoleModel, tokens: int = 6000) -> Suite:
    return await suite_of(*testers, rounds=1, budget_tokens=tokens, total_max=60, tests_per_category_max=20)


async def test_two_testers_reach_one_suite_both_are_paid_for_and_a_purse_that_ends_early_ends_for_both():
    asked: list[str] = []
    left, right = writer("left", "31", "32", asked=asked), writer("right", "61", "62", asked=asked)
    both, alone = await both_of(left, right), await both_of(left)
    written = {test.input: test.tester for test in both.tests if test.tester}
    assert written == {"f(31)": "left", "f(32)": "left", "f(61)": "right", "f(62)": "right"}
    assert asked.count("right") > 0 and asked.count("left") == 2 * asked.count("right")  # left was also asked alone
    assert both.prompt_tokens + both.completion_tokens > alone.prompt_tokens + alone.completion_tokens
    suite = await both_of(writer("left", "31"), writer("right", "61"), tokens=500)
    assert {test.tester for test in suite.tests if test.tester} == {"left", "right"}
    assert suite.prompt_tokens + suite.completion_tokens <= 500


@pytest.mark.parametrize(("config", "same"), [
    (SolverConfig(testgen=TestgenConfig(gate="off")), False),
    (SolverConfig(testgen=TestgenConfig(rounds=3)), False),
    (SolverConfig(testgen=TestgenConfig(temperature=0.4)), False),
    (SolverConfig(samples=9, selector="codet", temperatures=(0.1,), feedback="full"), True),
])  # fmt: skip
def test_every_testgen_knob_makes_another_suite_and_no_other_knob_does(config: SolverConfig, same: bool) -> None:
    left = writer("left", "1")
    assert (suite_key(TASK, config, 0, left) == suite_key(TASK, SolverConfig(), 0, left)) is same


def test_every_set_of_testers_has_a_suite_and_a_tester_a_name_by_model_server_or_script():
    left, right = writer("left", "1"), writer("right", "2")
    assert len({suite_key(TASK, SolverConfig(), 0, one) for one in (left, right, replace(left, others=(right,)))}) == 3
    config = with_testers(SweepConfig(), "tiny, local,big@http://127.0.0.1:1/v1,a.b:c")
    kinds = [(engine.kind, engine.label) for engine in config.roles.values()]
    assert kinds == [("embedded", "tiny"), ("embedded", EngineConfig().label), ("openai", "big"), ("scripted", "a.b:c")]
    for names, listed in ((" ,", []), ("a,b,c,d,e", [{}] * 5)):
        with pytest.raises(ConfigError, match="name 1 to 4 testers"):
            with_testers(SweepConfig(), names)
        with pytest.raises(ValueError, match="1 to 4"):
            SweepConfig.model_validate({"roles": {"tester": listed}})


def test_a_list_of_testers_takes_their_places_and_a_trial_knows_them_as_fellows(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("roles:\n  tester:\n  - model: small\n  - {kind: scripted, script: 'a:b'}\n  solver: {model: s}\n")
    labels = {role: engine.label for role, engine in load_config(path).roles.items()}
    assert labels == {"tester": "small", "tester_2": "a:b", "solver": "s"}
    known = together({"tester": writer("x", "1"), "tester_2": writer("y", "2"), "solver": writer("z", "3")})
    assert set(known) == {"tester", "solver"} and [one.label for one in known["tester"].others] == ["y"]


def test_a_reader_sees_what_was_understood_and_of_an_older_suite_what_it_has():
    verdicts = [GateVerdict(id=name, admitted=True, reason="admitted") for name in ("good", "bad")]
    suite = Suite(
        tests=(call_test("good", "f(2)", "4"), call_test("bad", "f(3)", "7")),
        dropped=(call_test("good!", "f(1)", "9"),),
        gate=(*verdicts, GateVerdict(id="good!", admitted=False, reason="contradicts\n'good'")),
        matrix={"r1": ("good",), "r2": ()}, assumptions=("boundary has only 1 tests.",),
        uncertainties=("Is 0 doubled?",), notes=("Mutants: not measured.",), reflections=("Round 1: 3 tests.",),
    )  # fmt: skip
    text = said(tell, *suite_sections(told_suite(suite.model_dump(mode="json"))))
    for part in (*suite.assumptions, *suite.uncertainties, *suite.notes, *suite.reflections, "happy_path 2/3"):
        assert part in text
    assert suite.covered == 0.5
    text = said(tell, *suite_sections(told_suite({"tests": [], "gate": []})))
    assert " ".join(text.split()) == "Self-tests: 0 admitted of 0 generated no tests were written"
