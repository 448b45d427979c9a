"""The actor of trials: what a trial that went on after its verdict tells the driver."""

import asyncio

from hc_ray_actors.driver.trial_record import Record
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.remote_place import Station
from hc_ray_actors.trials import RoleSetup, Trials
from tests.bench import null_world
from tests.fakes.trial import PROFILE


async def test_the_end_of_a_trial_tells_only_what_is_new_and_its_wait_for_a_verdict_counts_once(tmp_path):
    plan = null_world.plan_of(tmp_path / "out", 1, 8)
    (key,), (task,), engine = plan.trials, plan.taken, plan.config.engine
    setup = RoleSetup(engine=engine, endpoints=(Endpoint(base_urls=(), model="null"),), profile=PROFILE,
                      digest="null")  # fmt: skip
    trials = Trials("t", None)
    await trials.arrange({"null": setup}, {"here": Station(null_world.NullSandboxes("null", None, None))})
    record = Record(key, task, plan, null_world.LIMITS)
    handed = await trials.start(key, task)
    record.submitted(handed.submission, handed.outcome)
    await asyncio.sleep(1)
    record.enter("solving")
    ended = await trials.resume(key.name, False)
    await trials.stop()
    assert handed.outcome and (ended.submission, ended.outcome, ended.changed["bits"]) == (None, None, (False,))
    assert not {"exchanges", "candidates", "matrix", "suite", "differences"} & ended.changed.keys()
    record.ended(None, ended.changed)
    assert record.outcome == handed.outcome.model_copy(update=ended.changed)
    phases = record.result().agent_result.metadata["phases"]
    assert record.outcome.queued_seconds >= 1 and phases["queue for a verdict"] >= 1
    assert phases["solving"] > phases.get("queue for an engine or a sandbox", 0)
