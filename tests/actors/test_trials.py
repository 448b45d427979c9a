"""The actor of trials: what a trial that went on after its verdict tells the driver."""

import asyncio
from datetime import datetime

import pytest

from hc_ray.domain.errors import EngineError
from hc_ray.domain.events import EngineUse, ErrorEvent
from hc_ray_actors.attempts import fault_of, now
from hc_ray_actors.driver.trial_record import Record
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.remote_place import Station
from hc_ray_actors.trials import STEPS, RoleSetup, Step, Trials, _Running
from tests.bench import null_world
from tests.fakes.trial import PROFILE


@pytest.fixture
async def world(tmp_path):
    """A plan of one trial, and an actor of trials that has a null engine and null sandboxes."""
    plan = null_world.plan_of(tmp_path / "out", 1, 8)
    setup = RoleSetup(engine=plan.config.engine, endpoints=(Endpoint(base_urls=(), model="null"),), profile=PROFILE,
                      digest="null")  # fmt: skip
    trials = Trials("t", None)
    await trials.arrange({"null": setup}, {"here": Station(null_world.NullSandboxes("null", None, None))})
    return plan, trials


async def step_of(trials):
    while not (steps := [one for one in await trials.told() if isinstance(one, Step)]):
        """It has told events alone."""
    return steps[0]


async def test_the_end_of_a_trial_tells_only_what_is_new_and_its_wait_for_a_verdict_counts_once(world):
    plan, trials = world
    (key,), (task,) = plan.trials, plan.taken
    record = Record(key, task, plan, null_world.LIMITS)
    await trials.start(key, task)
    handed = await step_of(trials)
    record.submitted(handed.submission, handed.outcome)
    await asyncio.sleep(1)
    record.enter("solving")
    await trials.resume(key.name, False)
    ended = await step_of(trials)
    await trials.stop()
    assert EngineUse in map(type, await trials.told(0)), "what the engine's slots came to since the last account"
    assert handed.outcome and (ended.submission, ended.outcome, ended.changed["bits"]) == (None, None, (False,))
    assert not {"exchanges", "candidates", "matrix", "suite", "differences"} & ended.changed.keys()
    record.ended(None, ended.changed)
    assert record.outcome == handed.outcome.model_copy(update=ended.changed)
    phases = record.result().agent_result.metadata["phases"]
    assert record.outcome.queued_seconds >= 1 and phases["queue for a verdict"] >= 1
    assert phases["solving"] > phases.get("queue for an engine or a sandbox", 0)


async def test_a_result_tells_a_grading_by_the_drivers_clock_and_the_image_and_runners_that_its_trial_may_have_had(
    world,
):
    plan, _ = world
    record = Record(plan.trials[0], plan.taken[0], plan, null_world.LIMITS)
    record.environment(now(), "sha256:one", ["b", "a", "b"])
    record.submitted(None)
    await asyncio.sleep(0.2)
    record.judged(null_world.FAILED.model_copy(update={"seconds": 0.1}))
    told = record.result()
    assert (told.agent_result.metadata["image"], told.agent_result.metadata["runners"]) == ("sha256:one", ["a", "b"])
    began, ended = (datetime.fromisoformat(at) for at in (told.verifier.started_at, told.verifier.finished_at))
    assert (ended - began).total_seconds() == told.agent_result.metadata["phases"]["grading"] == 0.1
    assert told.started_at < told.verifier.started_at and told.verifier.finished_at <= told.finished_at


async def test_a_run_that_is_begun_anew_takes_the_place_of_the_one_before(world):
    plan, trials = world
    (key,), (task,) = plan.trials, plan.taken
    await trials.start(key, task)
    before = trials._running[key.name].task
    await trials.start(key, task)
    assert (await step_of(trials)).submission is not None
    await asyncio.wait([before], timeout=20)
    assert before.cancelled() and not trials._running[key.name].task.done()
    await trials.stop()


async def test_steps_are_told_at_once_a_few_at_a_time_each_after_its_events_and_none_of_a_run_that_was_replaced(
    tmp_path,
):
    trials, fault = Trials("t", None), fault_of(EngineError("refused"))
    keys = null_world.plan_of(tmp_path / "out", 2 * STEPS, 8).trials
    for key in keys:
        trials.record(ErrorEvent(trial=key.name, text="before"))
        before, running = _Running(), _Running()
        trials._running[key.name] = running
        trials._tell(key, before, fault=fault)
        trials._tell(key, running, fault=fault)
    told = [await asyncio.wait_for(trials.told(60), 5) for _ in range(2)]
    assert [len(one) for one in told] == [2 * STEPS] * 2 and await trials.told(0) == []
    assert [(type(one), one.trial) for part in told for one in part] == [
        (kind, key.name) for key in keys for kind in (ErrorEvent, Step)
    ]
