import io
import tarfile
from collections import Counter

import pytest

from hc_ray.domain.config import AgentName, BudgetConfig, SolverConfig, TestgenConfig
from hc_ray.domain.errors import EngineError
from hc_ray.domain.prompt import Prompt
from hc_ray.domain.runner_paths import inside_script
from hc_ray.search.orchestrate import make_suite
from tests.fakes.trial import BROKEN, RIGHT, TASK, TESTS, WRONG, Bench, body_of, scripted


async def test_raw_asks_once_and_hands_in_what_came_back_or_the_untouched_workspace():
    bench = Bench(scripted(WRONG))
    outcome = await bench.solve("raw")
    assert [prompt.role for prompt in bench.prompts] == ["solver"]
    assert outcome.turns == 1 and outcome.bits == (True,) and outcome.suite is None and outcome.self_pass is None
    assert "return n + 5" in bench.submitted() and all(sandbox.closed for sandbox in bench.place.made)
    bench = Bench(lambda prompt: "")
    bench.verdicts = (False,)
    outcome = await bench.solve("raw")
    assert outcome.chosen is None and outcome.bits == (False,) and outcome.candidates[0].malformed
    with tarfile.open(fileobj=io.BytesIO(bench.submissions[0].tar)) as archive:
        assert archive.getnames() == []


async def test_best_of_n_stays_inside_its_tokens_and_picks_the_commonest_behaviour() -> None:
    bench = Bench(scripted(WRONG, RIGHT, RIGHT.replace("n * 2", "n + n")))
    outcome = await bench.solve("best_of_n", tokens=1500)
    assert outcome.prompt_tokens + outcome.completion_tokens <= 1500
    assert 10 <= outcome.turns <= 20 and outcome.stop_reason == "tokens"
    assert {prompt.role for prompt in bench.prompts} == {"solver"}
    assert outcome.matrix is not None and all(test.expectation.kind == "unknown" for test in outcome.matrix_tests)
    assert {(one.passing, one.total) for one in bench.log.of("verify_complete")} == {(0, 0)}, (
        "inputs alone judge nobody"
    )
    assert "raise ValueError" in bench.submitted()


async def test_hc_writes_a_suite_first_and_ends_when_a_candidate_is_clearly_good() -> None:
    bench = Bench(scripted(WRONG, BROKEN, RIGHT))
    outcome = await bench.solve("hc")
    roles = [prompt.role for prompt in bench.prompts]
    assert roles.index("solver") > max(i for i, role in enumerate(roles) if role == "tester")
    assert outcome.suite is not None and len(outcome.suite.tests) >= 10
    assert "raise ValueError" in bench.submitted() and outcome.self_pass is True and outcome.progress == 1.0
    assert outcome.stop_reason in ("complete", "tokens", "turns")
    assert outcome.prompt_tokens >= outcome.suite.prompt_tokens > 0
    assert bench.log.actions("select") and bench.log.actions("decide")
    texts = [prompt.model_dump_json() for prompt in bench.prompts] + [sandbox.name for sandbox in bench.place.made]
    assert not [text for text in texts if "secret" in text], "no prompt and no sandbox names the task"


async def test_identical_candidates_cost_one_run_and_keep_their_votes() -> None:
    bench = Bench(scripted(WRONG, WRONG + "    # said again\n"))
    outcome = await bench.solve("best_of_n", SolverConfig(max_answer_tokens=60, greedy=1), tokens=900)
    ran = [command for _, command in bench.place.commands if inside_script("driver") in command]
    assert len(ran) == 1 and outcome.turns > 3
    assert outcome.candidates[1].duplicate_of == outcome.candidates[0].id
    assert outcome.matrix is not None and len(outcome.matrix.candidates) == outcome.turns


async def test_a_crash_is_repaired_with_what_was_observed() -> None:
    crash = "    return n.missing\n"

    def answer(prompt: Prompt) -> str:
        if prompt.role == "tester":
            return scripted("")(prompt)
        return body_of(prompt, RIGHT if prompt.purpose == "repair" else crash)

    bench = Bench(answer)
    outcome = await bench.solve("hc", tokens=8000)
    repairs = [prompt for prompt in bench.prompts if prompt.purpose == "repair"]
    assert repairs and "AttributeError" in (repairs[0].text or "") and "n.missing" in (repairs[0].text or "")
    chosen = next(one for one in outcome.candidates if one.id == outcome.chosen)
    assert chosen.repairs == 1 and chosen.parent is not None
    assert all(one.repairs <= SolverConfig().repairs for one in outcome.candidates)


async def test_turns_bound_the_search():
    bench = Bench(scripted(WRONG, BROKEN))
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, max_turns=4), tokens=50_000)
    assert outcome.turns == 4 and outcome.stop_reason == "turns"


async def test_a_cached_suite_is_charged_in_full():
    bench = Bench(scripted(RIGHT))
    first = await bench.solve("hc")
    testers = sum(prompt.role == "tester" for prompt in bench.prompts)
    second = await bench.solve("hc")
    assert sum(prompt.role == "tester" for prompt in bench.prompts) == testers
    assert second.prompt_tokens == first.prompt_tokens


@pytest.mark.parametrize("agent", ["hc", "best_of_n"])
async def test_the_wall_time_ends_before_any_test_is_run_and_a_candidate_is_handed_in(agent: AgentName) -> None:
    bench = Bench(scripted(RIGHT, WRONG))
    await bench.solve("hc")
    begun = len(bench.place.made)  # the suite is there: what hangs are the runs of the first round
    bench.place.hangs = lambda name: name != bench.place.made[begun].name
    outcome = await bench.solve(agent, budget=BudgetConfig(tokens=6000, default_timeout_sec=2))
    assert outcome.stop_reason == "timeout" and outcome.matrix is not None and not outcome.matrix.candidates
    assert outcome.chosen == next(one.id for one in outcome.candidates if one.files)
    assert outcome.selection is not None and outcome.selection.chosen == outcome.chosen
    assert "def double" in bench.submitted()
    assert outcome.self_pass is None and outcome.progress is None, "what was not measured is not said"


async def test_an_engine_that_fails_leaves_no_sandbox_open() -> None:
    def fail(prompt: Prompt) -> str:
        if prompt.role == "solver" and len(bench.prompts) > 12:
            raise EngineError("the server is gone")
        return scripted(WRONG, BROKEN)(prompt)

    bench = Bench(fail)
    with pytest.raises(EngineError):
        await bench.solve("best_of_n")
    assert bench.place.made and all(sandbox.closed for sandbox in bench.place.made)


async def test_testgen_stays_inside_its_budget_and_fills_up_where_a_tester_says_nothing_new():
    bench = Bench(scripted(""))
    config = SolverConfig(testgen=TestgenConfig(budget_tokens=10))
    suite = await make_suite(TASK, config=config, seed=0, tester=bench.role, place=bench.place)
    assert bench.prompts == [] and suite.prompt_tokens == 0
    counts = Counter(test.category for test in suite.tests)
    assert len(suite.tests) >= 10 and min(counts[one] for one in ("existence", "format", "boundary", "edge_case")) >= 2
    assert len(suite.gate) == len(suite.tests) + len(suite.dropped)
    bench = Bench(lambda prompt: "1) == 2\nassert double(1) == 2\nassert double(2) == 4\n")
    suite = await make_suite(TASK, config=SolverConfig(), seed=0, tester=bench.role, place=bench.place)
    counts = Counter(test.category for test in suite.tests)
    assert counts["boundary"] >= 2 and counts["edge_case"] >= 2 and len(suite.tests) >= 10


@pytest.mark.parametrize("stated", [True, False])
async def test_greedy_copies_of_one_text_are_one_voice_where_no_answer_is_stated(stated):
    bench = Bench(lambda prompt: TESTS if prompt.role == "tester" else body_of(prompt, RIGHT))
    silent = "Write `/app/double.py` with a function `double(n: int) -> int`. It must return twice the given number."
    bench.task = bench.task if stated else bench.task.model_copy(update={"instruction": silent})
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=1, greedy=4))
    assert outcome.matrix is not None and len(outcome.candidates) == 4
    assert [one.temperature for one in outcome.candidates] == [0.0] * 4
    assert len(outcome.matrix.candidates) == (4 if stated else 1)
