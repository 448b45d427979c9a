import asyncio
import time

import pytest

from hc_ray.agent import budget
from hc_ray.agent.budget import Asking, Purse, side_by_side
from hc_ray.agent.role import RoleModel
from hc_ray.domain.config import BudgetConfig, SolverConfig, TestgenConfig
from hc_ray.domain.errors import EngineError
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Prompt
from hc_ray.engines.scripted import ScriptedModel
from tests.fakes.time_up import ending
from tests.fakes.trial import Bench, scripted


class Stalls(ScriptedModel):
    """Answers the first prompts at ten tokens and three for each, and is silent from then on."""

    def __init__(self, answers):
        super().__init__(lambda prompt: "    return n * 2\n")
        self.left = answers
        self.stalled = lambda: None

    async def complete(self, prompt):
        self.left -= 1
        if self.left < 0:
            await asyncio.sleep(0.05)  # those asked before have been heard
            self.stalled()
            await asyncio.sleep(60)
        answer = await super().complete(prompt)
        return answer.model_copy(update={"prompt_tokens": 10, "completion_tokens": 3})


def _role(model):
    return RoleModel(model=model, profile=Profile(form="completion", test_form="completion"), digest="m")


def _prompt(seed):
    text = "def double(n):\n"
    return Prompt(text=text, context=text, seed=seed, max_tokens=20, role="solver", purpose="candidate")


@pytest.mark.parametrize(("known", "shared"), [(8, 8), (None, 5), (12, 10)])
async def test_of_a_prompt_counts_what_goes_beyond_the_one_before_by_the_engines_count_or_by_its_length(known, shared):
    purse = Purse(1000)
    prompt = _prompt(0).model_copy(update={"shared": 0.5, "shared_tokens": known})
    await Asking(_role(Stalls(1)), purse).all([("c0", prompt)])
    assert (purse.shared_tokens, purse.spent) == (shared, 13 - shared)


async def test_what_is_new_in_a_prompt_is_reserved_by_its_own_tokens_however_thin_what_was_there_before_is():
    old, new = "abcdefgh " * 500, "+-" * 500
    prompt = _prompt(0).model_copy(update={"text": old + new, "shared": len(old) / len(old + new)})
    assert 1000 <= await Asking(_role(Stalls(0)), Purse(1)).worst_case(prompt) - prompt.max_tokens < 1100


async def test_exchanges_stand_in_the_order_of_the_prompts_whatever_order_the_answers_come_in():
    class Backwards(ScriptedModel):
        async def complete(self, prompt):
            await asyncio.sleep(0.02 - prompt.seed * 0.005)
            return await super().complete(prompt)

    asking = Asking(_role(Backwards(lambda prompt: str(prompt.seed))), Purse(1000))
    answers = await asking.all([(f"c{n}", _prompt(n)) for n in range(4)])
    assert [answer.text for answer in answers] == ["0", "1", "2", "3"]
    assert [exchange.owner for exchange in asking.exchanges] == ["c0", "c1", "c2", "c3"] and asking.unanswered == 0


async def test_a_suite_takes_no_time_of_the_trial():
    took = 0

    def answer(prompt):
        nonlocal took
        took = 1000 if prompt.role == "tester" else took
        return scripted("    return n * 2\n")(prompt)

    outcome = await Bench(answer).solve("hc", queued=lambda: -took)
    assert took and outcome.suite and outcome.suite.tests and outcome.stop_reason != "timeout"


async def test_work_side_by_side_ends_whole_before_anything_goes_on_and_the_first_failure_ends_the_rest():
    ended = []

    async def works(seconds, fails=False):
        try:
            await (asyncio.sleep(0.01) if fails else asyncio.Event().wait())
            raise EngineError("refused")
        finally:
            await asyncio.sleep(seconds)  # as whoever looks at what was made, or closes a sandbox
            ended.append(seconds)

    def begun(*pieces):
        return asyncio.ensure_future(side_by_side([asyncio.ensure_future(one) for one in pieces]))

    cut_off = begun(works(0), works(0.05), works(0.1))
    await asyncio.sleep(0.01)
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off
    with pytest.raises(EngineError, match="refused"):
        await begun(works(0.1), works(0, fails=True))
    assert ended == [0, 0.05, 0.1, 0, 0.1]
    await side_by_side([])


async def test_a_suite_that_is_not_finished_in_its_time_costs_what_was_spent_and_the_trial_goes_on_without(monkeypatch):
    model, clocks = Stalls(1), ending(monkeypatch)
    model.stalled = lambda: setattr(clocks[-1], "seconds", 0.0)
    bench = Bench(scripted(""))
    bench.role = _role(model)
    outcome = await bench.solve("hc", SolverConfig(testgen=TestgenConfig(second_reading=False)), budget=BudgetConfig())
    assert len(clocks) == 2 and outcome.suite is not None and outcome.suite.tests == ()
    assert outcome.notes[0].startswith("there is no suite: it was not finished within")
    assert outcome.stop_reason == "timeout" and (outcome.prompt_tokens, outcome.completion_tokens) == (10, 3)


async def test_time_in_a_queue_is_not_counted_the_rest_ends_the_work_and_what_it_raises_is_heard():
    began = time.monotonic()
    queued = budget.Clock(0.2, lambda: min(0.3, time.monotonic() - began))
    await queued.bound(asyncio.sleep(0.4))
    with pytest.raises(budget.TimeIsUp):
        await budget.Clock(0.05).bound(asyncio.sleep(60))

    async def fails():
        raise EngineError("refused")

    with pytest.raises(EngineError):
        await budget.Clock(60).bound(fails())
    ended = asyncio.Event()

    async def works():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    bounded = asyncio.ensure_future(budget.Clock(60).bound(works()))
    await asyncio.sleep(0.01)
    bounded.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bounded
    assert ended.is_set()
