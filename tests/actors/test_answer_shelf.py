import asyncio
from types import SimpleNamespace

import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Message, Prompt
from hc_ray_actors.asking.activity import Activities
from hc_ray_actors.asking.meter import AnswerShelf, Meter
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.trials import RoleSetup

PROMPT = Prompt(role="solver", purpose="candidate", text="def f(", max_tokens=50, temperature=0.7, seed=4,
                schema_={"a": 1, "b": 2})  # fmt: skip


class Engine:
    """Answers with the number of the request, once it may."""

    def __init__(self) -> None:
        self.asked, self.fault, self.may = [], None, asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked.append(prompt)
        number = len(self.asked)
        await self.may.wait()
        if self.fault:
            raise self.fault
        return Completion(text=f"answer {number}", prompt_tokens=10, completion_tokens=5, seconds=3.0)


@pytest.fixture
def world():
    """Three trials, and an engine of one slot that answers at once unless a test holds it back."""
    world = SimpleNamespace(time=0.0, told=[], engine=Engine())
    activities = Activities(world.told.append, now=lambda: world.time)
    queue, shelf = activities.engine("m", 1), AnswerShelf()
    world.engine.may.set()

    def account():
        activities.settle(last=True)
        return world.told[-1]

    def meter(trial, model="m", shelf=shelf):
        return Meter(lambda: ((world.engine, queue),), trial, "t", lambda: (shelf, model))

    world.account, world.meter, world.activities, world.shelf = account, meter, activities, shelf
    with activities.trial() as one, activities.trial() as two, activities.trial() as three:
        world.trials = one, two, three
        world.meters = [meter(trial) for trial in world.trials]
        yield world


async def under_way(*asked):
    begun = [asyncio.ensure_future(one) for one in asked]
    for _ in range(4):
        await asyncio.sleep(0)
    return begun


async def test_equal_requests_of_several_trials_reach_the_engine_once_and_cost_each_of_them_the_same(world):
    world.engine.may.clear()
    first, second = await under_way(*(meter.complete(PROMPT) for meter in world.meters[:2]))
    world.engine.may.set()
    world.time += 1
    answer = await world.meters[2].complete(PROMPT)
    assert await first == await second == answer and (answer.prompt_tokens, answer.completion_tokens) == (10, 5)
    assert len(world.engine.asked) == 1
    told = world.account()
    assert (told.requests, told.prompt_tokens, told.completion_tokens) == (1, 10, 5)
    assert (told.reused, told.reused_tokens) == (2, 30)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 5}, {"temperature": 0.6}, {"max_tokens": 51}, {"text": "def g("}, {"stop": ("\n",)},
        {"text": None, "messages": (Message(role="user", content="def f("),)}, {"schema_": {"b": 2, "a": 1}},
        {"tools": ({"type": "function"},)},
    ],
)  # fmt: skip
async def test_whatever_the_server_is_sent_makes_another_request_the_order_of_a_schemas_properties_too(world, other):
    await world.meters[0].complete(PROMPT)
    answer = await world.meters[1].complete(PROMPT.model_copy(update=other))
    assert answer.text == "answer 2"


async def test_what_is_only_for_our_books_makes_no_other_request_and_another_model_does(world):
    await world.meters[0].complete(PROMPT)
    books = {"purpose": "repair", "role": "tester", "shared": 0.5, "shared_tokens": 3, "context": "x"}
    assert (await world.meters[1].complete(PROMPT.model_copy(update=books))).text == "answer 1"
    assert (await world.meter(world.trials[1], model="another").complete(PROMPT)).text == "answer 2"


async def test_a_trial_that_ends_leaves_its_question_to_the_next_that_wants_the_answer(world):
    world.engine.may.clear()
    asks, waits, waits_too = await under_way(*(meter.complete(PROMPT) for meter in world.meters))
    waits_too.cancel()  # who only waited takes the request from nobody
    asks.cancel()
    await under_way()
    assert len(world.engine.asked) == 2
    world.engine.may.set()
    assert (await waits).text == "answer 2"
    assert asks.cancelled() and waits_too.cancelled()


async def test_a_failure_fails_all_that_wait_and_nobody_who_asks_later(world):
    world.engine.may.clear()
    asked = await under_way(*(meter.complete(PROMPT) for meter in world.meters[:2]))
    world.engine.fault = EngineError("down")
    world.engine.may.set()
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(one) for one in failed] == ["down", "down"] and len(world.engine.asked) == 1
    world.engine.fault = None
    assert (await world.meters[0].complete(PROMPT)).text == "answer 2"


async def test_who_waits_for_anothers_request_stands_in_a_queue_until_it_must_ask_itself(world):
    world.engine.may.clear()
    asks, waits = await under_way(*(meter.complete(PROMPT) for meter in world.meters[:2]))
    world.time += 100.0
    assert [trial.queued() for trial in world.trials[:2]] == [0.0, 100.0]
    asks.cancel()
    await under_way()
    world.time += 50.0
    world.engine.may.set()
    await waits
    assert [trial.queued() for trial in world.trials[:2]] == [0.0, 100.0]


async def test_of_the_answers_the_longest_unused_go_where_room_is_short(world):
    shelf = AnswerShelf(room=10_000)  # two of them
    meter = world.meter(world.trials[0], shelf=shelf)
    asked = [PROMPT.model_copy(update={"seed": seed}) for seed in range(3)]
    for prompt in (asked[0], asked[1], asked[0], asked[2]):
        await meter.complete(prompt)
    assert len(world.engine.asked) == 3
    assert [(await meter.complete(prompt)).text for prompt in (asked[0], asked[1])] == ["answer 1", "answer 4"]


def test_answers_are_shared_where_every_replica_that_is_up_honours_seeds():
    def setup(*seeds):
        endpoints = tuple(None if seed is None else Endpoint(base_urls=(), model="m", capabilities={"seed": seed})
                          for seed in seeds)  # fmt: skip
        return RoleSetup(engine=EngineConfig(), endpoints=endpoints, profile=Profile(), digest="d")

    assert setup(True, None, True).seeded
    assert not setup(True, False).seeded
    assert not RoleSetup(engine=EngineConfig(), endpoints=(Endpoint(base_urls=(), model="m"),), profile=Profile(),
                         digest="d").seeded  # fmt: skip
