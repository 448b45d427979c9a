import asyncio
from types import SimpleNamespace

import pytest

from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import EngineError
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray_actors.asking.activity import SHUNNED_SECONDS, Activities
from hc_ray_actors.asking.meter import Meter, chosen
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew.replicas import Replicas
from hc_ray_actors.engine import Endpoint

PROMPT = Prompt(role="solver", purpose="test", text="x" * 300, max_tokens=50)


class Server:
    def __init__(self) -> None:
        self.asked, self.dead, self.may = 0, False, asyncio.Event()

    async def complete(self, prompt: Prompt) -> Completion:
        self.asked += 1
        await self.may.wait()
        if self.dead:
            raise EngineError("gone")
        return Completion(text="a", prompt_tokens=100, completion_tokens=5, finish_reason="stop", seconds=0.0)


class Stand:
    def __init__(self, node: str) -> None:
        self.node, self.state = node, "ready"


@pytest.fixture
def world():
    """Three replicas, the one of task ``t`` first, and a trial of that task that asks them."""
    time = [0.0]
    activities = Activities(lambda use: None, now=lambda: time[0])
    replicas = [(Server(), activities.engine(f"m {number}", 4)) for number in range(3)]
    order = sorted(replicas, key=lambda one: one is not chosen("t", replicas))
    with activities.trial() as trial:
        servers, queues = map(list, zip(*order, strict=True))
        yield servers, queues, Meter(lambda: replicas, trial, "t"), time


def replicas_of(*loads):
    """By number, with so many tokens in hand."""
    return [(number, SimpleNamespace(name=f"m {number}", outstanding=load)) for number, load in enumerate(loads)]


def test_a_task_goes_to_the_same_replica_while_the_loads_allow_and_tasks_spread_over_idle_ones():
    assert {chosen("abc", replicas_of(0, 0, 0))[0] for _ in range(5)} == {chosen("abc", replicas_of(0, 0, 0))[0]}
    assert len({chosen(f"task{number}", replicas_of(0, 0, 0))[0] for number in range(60)}) == 3


def test_a_replica_that_goes_leaves_the_tasks_of_the_others_where_they_are():
    every, tasks = replicas_of(0, 0, 0), [f"task{number}" for number in range(60)]
    before = {task: chosen(task, every)[0] for task in tasks}
    moved = {task for task in tasks if chosen(task, every[1:])[0] != before[task]}
    assert moved == {task for task in tasks if before[task] == 0} != set()


def test_no_replica_gets_more_than_a_quarter_above_the_mean():
    replicas = replicas_of(0, 0, 0, 0)
    for number in range(400):
        chosen(f"task{number % 7}", replicas)[1].outstanding += 100 + number % 50
    loads = [queue.outstanding for _, queue in replicas]
    assert max(loads) <= 1.25 * (sum(loads) / 4) + 150


async def test_tokens_in_hand_are_counted_from_the_question_to_the_answer_and_decide_who_is_asked(world):
    servers, queues, meter, _ = world
    asked = [asyncio.ensure_future(meter.complete(PROMPT)) for _ in range(6)]
    await asyncio.sleep(0)
    first, *others = (server.asked for server in servers)
    assert (first, sorted(others)) == (3, [1, 2]) and queues[0].outstanding == 3 * (100 + 50)
    for server in servers:
        server.may.set()
    await asyncio.gather(*asked)
    assert [queue.outstanding for queue in queues] == [0, 0, 0]
    await meter.complete(PROMPT)
    assert servers[0].asked == 4


async def test_what_a_dead_replica_had_in_hand_another_answers_and_it_gets_nothing_until_it_may_be_back(world):
    servers, queues, meter, time = world
    servers[0].dead = True
    for server in servers:
        server.may.set()
    for _ in range(2):
        assert (await meter.complete(PROMPT)).completion_tokens == 5
    assert servers[0].asked == 1 and queues[0].shunned
    time[0] += SHUNNED_SECONDS
    servers[0].dead = False
    await meter.complete(PROMPT)
    assert servers[0].asked == 2
    for server in servers:
        server.dead = True
    with pytest.raises(EngineError, match="gone"):
        await meter.complete(PROMPT)
    assert servers[0].asked == 3 and sum(server.asked for server in servers) == 7


async def test_the_time_that_a_request_spent_at_a_replica_that_did_not_answer_is_none_of_the_trials(world):
    servers, _, meter, time = world
    servers[0].dead = True
    asked = asyncio.ensure_future(meter.complete(PROMPT))
    await asyncio.sleep(0)
    time[0] += 40
    servers[0].may.set()
    await asyncio.sleep(0.01)
    time[0] += 3
    for server in servers:
        server.may.set()
    await asked
    assert meter._activity.queued() == 40


def test_an_engine_on_a_node_that_will_leave_is_told_of_only_where_there_is_no_other():
    engine, leaving = EngineConfig(kind="server", command="vllm", replicas=2), {"a"}
    plan = SimpleNamespace(asked=[(engine, Profile(), "m")])
    roster = SimpleNamespace(leaves=lambda post: post.node in leaving)
    replicas = Replicas(plan, Cluster(), roster)
    posts = [Stand(node) for node in "ab"]
    replicas._posts[engine] = posts
    replicas._endpoints = {post: Endpoint(base_urls=(post.node,), model="m") for post in posts}

    def told():
        return [endpoint and endpoint.base_urls[0] for endpoint in replicas.roles()["m"].endpoints]

    assert told() == [None, "b"]
    leaving.add("b")
    assert told() == ["a", "b"]
    posts[0].state = "resting"
    assert told() == [None, "b"]
