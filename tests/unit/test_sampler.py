import asyncio
from typing import Any

import pytest

from hc_ray.agent.role import RoleModel
from hc_ray.domain.config import SELECTORS, SolverConfig
from hc_ray.domain.events import Action
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.suite import Cell, PassMatrix, Property, SelfTest, Subject
from hc_ray.search.selection import select
from tests.fakes.suites import call_test, matrix_of
from tests.fakes.trial import BROKEN, RIGHT, TESTS, WRONG, Bench, body_of, scripted

CRASH = "    return n.missing\n"
NEARLY = "    if n < 0:\n        raise ValueError(n)\n    return n + n if n < 50 else 1\n"
SMALL = "    if n < 0:\n        raise ValueError(n)\n    return n + n if n > 1 else 5\n"
SETTINGS: dict[str, Any] = {"max_answer_tokens": 60, "max_rounds": 4, "max_turns": 24}


async def test_a_search_begins_greedily_with_one_plan_after_another_and_copies_that_settle_it_stay():
    bench = Bench(scripted(WRONG, RIGHT))
    await bench.solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=1))
    first = [prompt for prompt in bench.prompts if prompt.role == "solver"]
    assert [prompt.temperature == 0.0 for prompt in first] == [True, True, False, False]
    assert len({prompt.text for prompt in first}) == 4
    bench = Bench(scripted(RIGHT))
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60))
    assert outcome.turns == 4 and outcome.stop_reason == "complete" and len(bench.log.actions("round")) == 1
    assert sum(one.duplicate_of is not None for one in outcome.candidates) >= 2


@pytest.mark.parametrize("stated", [True, False])
async def test_greedy_copies_of_one_text_are_one_voice_where_no_answer_is_stated(stated):
    bench = Bench(lambda prompt: TESTS if prompt.role == "tester" else body_of(prompt, RIGHT))
    silent = "Write `/app/double.py` with a function `double(n: int) -> int`. It must return twice the given number."
    bench.task = bench.task if stated else bench.task.model_copy(update={"instruction": silent})
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=1, greedy=4))
    assert outcome.matrix is not None and len(outcome.candidates) == 4
    assert [one.temperature for one in outcome.candidates] == [0.0] * 4
    assert len(outcome.matrix.candidates) == (4 if stated else 1)


async def test_no_decision_depends_on_which_answer_came_first():
    async def journal(reverse: bool) -> list[Any]:
        class Model:
            async def complete(self, prompt: Prompt) -> Completion:
                await asyncio.sleep((prompt.seed % 7 if reverse else 6 - prompt.seed % 7) / 500)
                return await model.complete(prompt)

            async def count_tokens(self, text: str) -> int:
                return await model.count_tokens(text)

        # The scripted answers go by the order of the first sight of a seed: it must not be the order of arrival.
        order = {seed: i for i, seed in enumerate(dict.fromkeys(seeds))}
        answers = (WRONG, CRASH, NEARLY, BROKEN)

        def answer(prompt: Prompt) -> str:
            if prompt.role == "tester":
                return scripted("")(prompt)
            return body_of(prompt, answers[order.get(prompt.seed, 0) % 4])

        bench = Bench(answer)
        model = bench.role.model
        bench.role = RoleModel(model=Model(), profile=bench.role.profile, digest="m")
        await bench.solve("hc", SolverConfig(**SETTINGS), tokens=20_000)
        return [event.model_dump() for event in bench.log.events if isinstance(event, Action)]

    seeds: list[int] = []
    probe = Bench(scripted(WRONG, CRASH, NEARLY, BROKEN))
    await probe.solve("hc", SolverConfig(**SETTINGS), tokens=20_000)
    seeds = [prompt.seed for prompt in probe.prompts if prompt.role == "solver"]
    assert await journal(False) == await journal(True)


@pytest.mark.parametrize("name", SELECTORS)
def test_copies_of_a_crash_never_outvote_one_candidate_that_answers(name):
    crash, answer = Cell(outcome="error", detail="NameError"), Cell(outcome="pass", observed="8")
    there = Cell(outcome="pass", observed="yes")
    tests = (
        SelfTest(id="file", category="existence", subject=Subject(kind="file", path="m.py"),
                 expectation=Property(name="exists")),
        call_test("call", "f(4)", "8"),
    )  # fmt: skip
    names = tuple(f"c1.{i}" for i in range(21))
    matrix = PassMatrix(candidates=names, tests=("file", "call"), cells=((there, crash),) * 20 + ((there, answer),))
    assert select(matrix, name, tests=tests).chosen == "c1.20"


@pytest.mark.parametrize("name", ["max_pass", "codet", "posterior"])
@pytest.mark.parametrize(("confidence", "right"), [(0.7, True), (0.6, False)])
def test_copies_never_outvote_who_passes_all_that_they_pass_and_a_believed_test_besides(name, confidence, right):
    tests = [call_test(f"t{i}", f"f({i})", confidence=confidence) for i in range(3)]
    chosen = select(matrix_of(["+--"] * 30 + ["+++"], [["1", "2", "2"]] * 30 + [["1"] * 3]), name, tests=tests).chosen
    assert chosen == "c30" if right or name == "max_pass" else chosen == "c0"


@pytest.mark.parametrize("name", ["max_pass", "codet", "posterior"])
@pytest.mark.parametrize("tester", ["", "model"])
def test_copies_never_outvote_who_also_runs_where_the_instruction_allows_it(name, tester):
    runs = {"category": "edge_case", "expectation": Property(name="runs"), "weight": 0.3, "tester": tester}
    tests = [call_test("t0", "f(0)", confidence=0.9), call_test("t1", confidence=0.5, **runs)]
    matrix = matrix_of(["+-"] * 30 + ["++"], [["1", "raises IndexError"]] * 30 + [["1", "1"]])
    chosen = select(matrix, name, tests=tests).chosen
    assert chosen == "c30" if not tester or name == "max_pass" else chosen == "c0"
