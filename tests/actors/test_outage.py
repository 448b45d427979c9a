"""One outage is one mend, however many trials it stops, with actors that are played."""

import asyncio
import json
import signal
import threading

import pytest

from hc_ray.domain.config import EngineConfig, RetryConfig, SweepConfig
from hc_ray.domain.errors import EngineError, InfrastructureError, OutputError, SandboxError
from hc_ray.machine import sealed_guard
from hc_ray_actors.attempts import fault_of
from hc_ray_actors.cluster import SANDBOX, VERIFIER, Member
from hc_ray_actors.driver.crew import posts
from hc_ray_actors.driver.crew.crew import Crew
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.roster import Broken, Roster
from hc_ray_actors.driver.nodes import SeenNode
from hc_ray_actors.driver.plan import prepare
from hc_ray_actors.driver.resumption import stored_config
from hc_ray_actors.jobs import single
from tests.fakes.crew import Stage, attempts_of, plan_of, results_of, run
from tests.fakes.listeners import Watcher
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_task

SOMEBODY = fault_of(SandboxError("it does not say whose fault it is"))
PATIENT = RetryConfig(attempts=3, backoff_sec=0.01, outage_sec=30)


@pytest.fixture
def far(monkeypatch):
    monkeypatch.setattr(sealed_guard, "install", lambda root: None)  # nothing takes a guard away again
    stage = Stage()
    stage.where, stage.nodes = "a cluster", ["a", "b"]
    return stage


def test_sixty_four_trials_that_an_engine_drops_at_once_are_one_mend(tmp_path):
    dropped = []

    async def drops(name):
        dropped.append(name)
        if len(dropped) <= 64:
            while len(dropped) < 64:
                await asyncio.sleep(0.001)
            stage.living["Engine"][0].dead = True
            raise EngineError("connection refused")

    stage = Stage(solve=drops)
    summary, _ = run(plan_of(tmp_path / "out", 8, seeds=8, concurrency=64, retries=PATIENT), stage)
    assert (summary.done, summary.unscored) == (64, 0) and stage.made.count("Engine") == 2
    assert stage.count("alive", "_Verifiers") <= 3  # at its start, and once more for those that came while it looked
    assert all(len(attempts_of(result)) == 1 for result in results_of(tmp_path / "out").values())


def test_trials_that_have_not_begun_wait_for_the_mend_and_the_one_that_met_it_loses_one_attempt(tmp_path):
    met, polls = [], []

    def drops(name):
        if len(polls) < 20:
            met.append(name)
            raise SandboxError("Docker: no answer from the daemon")

    def fault(name):
        polls.extend([name] if met else [])
        return "nobody answers at /var/run/docker.sock" if met and len(polls) < 20 else None

    summary, _ = run(plan_of(tmp_path / "out", 9, retries=PATIENT), Stage(solve=drops, fault=fault))
    assert (summary.done, summary.unscored) == (9, 0) and met == ["t0"]
    assert [len(attempts_of(one)) for _, one in sorted(results_of(tmp_path / "out").items())] == [1] + [0] * 8


def test_a_trial_in_its_back_off_leaves_its_evidence_when_the_last_node_goes_meanwhile(tmp_path, far, monkeypatch):
    monkeypatch.setattr("hc_ray_actors.driver.crew.crew.WATCH_SECONDS", 0.01)
    failed = []

    def fails(name):
        failed.append(name)
        raise EngineError("connection refused")

    async def leaves(name):
        if name == "t1" and far.count("prepare", name) == 2:  # the last that it waits for before it has a slot
            while not failed:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # the mend is over, and the trial in its back-off
            far.nodes.clear()
            await asyncio.sleep(0.1)

    far.scripts, far.nodes = {"solve": fails, "prepare": leaves}, ["here"]
    late = threading.Timer(20, signal.raise_signal, [signal.SIGINT])
    late.start()
    retries = RetryConfig(attempts=3, backoff_sec=0.5, outage_sec=0.05)
    summary, _ = run(plan_of(tmp_path / "out", retries=retries), far)
    late.cancel()
    assert summary.stopped and not summary.interrupted, "nobody waits for a slot that another holds for ever"
    assert {name for name, one in results_of(tmp_path / "out").items() if attempts_of(one)} == {"t0"}


async def _opened(tmp_path, stage, emit=lambda event: None, **retries):
    crew = Crew(plan_of(tmp_path / "out", 1, retries=PATIENT.model_copy(update=retries)), stage, emit)
    await crew.open()
    return crew


async def test_who_asks_while_a_mend_is_under_way_gets_a_look_that_began_after_it_asked(tmp_path):
    asking = []

    async def last(name):
        if name == "_Trials" and not asking:  # the engine was looked at before, and lived
            stage.die("Engine")
            asking.append(asyncio.ensure_future(crew.mend(SOMEBODY)))
            await asyncio.sleep(0)

    stage = Stage()
    crew = await _opened(tmp_path, stage)
    stage.scripts["alive"] = last
    await crew.mend(SOMEBODY)
    await asyncio.gather(*asking)
    assert stage.made.count("Engine") == 2


@pytest.mark.parametrize("where", ["", f"{SANDBOX}@b"], ids=["no post", "the post of that node"])
async def test_a_fault_that_names_a_node_that_hangs_or_none_keeps_no_trial_from_the_others(tmp_path, far, where):
    crew = await _opened(tmp_path, far)
    for actor in (*far.living["Sandboxes"], *far.living["Verifiers"]):
        actor.hung = actor.node == "b"
    await asyncio.wait_for(crew.mend(SOMEBODY.model_copy(update={"where": where})), 5)
    await crew.close_trials()


@pytest.mark.parametrize(("nodes", "rests"), [(["a", "b"], True), (["b"], False)], ids=["of two", "the only one"])
async def test_a_node_that_fails_again_and_again_rests_though_it_says_that_it_is_well(tmp_path, far, nodes, rests):
    far.nodes, told = nodes, []
    crew = await _opened(tmp_path, far, told.append)
    for _ in range(posts.STRIKES):
        await crew.mend(SOMEBODY.model_copy(update={"where": f"{SANDBOX}@b"}))
        await asyncio.sleep(0.01)
    await crew.close_trials()
    resting = [(event.kind, event.node, event.why) for event in told if getattr(event, "state", "") == "resting"]
    assert resting == [(SANDBOX, "b", SOMEBODY.text)] * rests


async def test_a_process_of_sandboxes_that_takes_anothers_place_is_told_the_clusters_addresses(tmp_path, far):
    slots = {SANDBOX: 2.0, VERIFIER: 2.0}
    far.members = lambda: [Member(id=node, name=node, address=f"ip-{node}", slots=slots) for node in far.nodes]
    crew = await _opened(tmp_path, far)
    far.calls.clear()
    far.die("Sandboxes")
    await crew.mend(SOMEBODY)
    told = [name for method, name in far.calls if method == "keep_from"]
    await crew.close_trials()
    assert told == ["ip-a ip-b"] and far.made.count("Sandboxes") == 3


async def test_a_node_that_the_plan_saw_to_hang_keeps_no_sweep_from_its_start_and_joins_when_it_is_well(
    tmp_path, far, monkeypatch
):
    monkeypatch.setattr("hc_ray_actors.driver.crew.crew.WATCH_SECONDS", 0.01)
    spawn, made = far.spawn, []

    def hangs(cls, *args, **where):
        made.append(spawn(cls, *args, **where))
        made[-1].hung = where.get("node") == "b"
        return made[-1]

    far.spawn = hangs
    sick = SeenNode(id="b", name="b", slots={SANDBOX: 2.0}, left_out="it does not answer within 60 s")
    crew = Crew(plan_of(tmp_path / "out", 1, retries=PATIENT).model_copy(update={"nodes": (sick,)}), far)
    await asyncio.wait_for(crew.open(), 5)
    while not (late := [actor for actor in made if actor.node == "b"]):
        await asyncio.sleep(0.01)
    for actor in late:
        actor.hung = False
    async with asyncio.timeout(5):
        while not any(post.node == "b" for post in crew._roster.ready(SANDBOX)):
            await asyncio.sleep(0.01)
    await crew.close_trials()


def test_a_head_that_hangs_does_not_keep_a_sweep_that_is_done_from_its_end(tmp_path, far, monkeypatch):
    monkeypatch.setattr("hc_ray_actors.driver.crew.crew.WATCH_SECONDS", 0.01)
    monkeypatch.setattr("hc_ray_actors.driver.crew.crew.FREE_SECONDS", 0.1, raising=False)
    hangs, members, freed = threading.Event(), far.members, threading.Event()

    def asked():
        if hangs.is_set():
            freed.wait(60)
        return members()

    async def solve(name):
        hangs.set()
        await asyncio.sleep(0.05)

    far.members, far.scripts = asked, {"solve": solve}
    late = threading.Timer(20, freed.set)
    late.start()
    summary, _ = run(plan_of(tmp_path / "out", 1, retries=PATIENT), far)
    assert (summary.done, summary.unscored) == (1, 0) and not freed.is_set()
    late.cancel()
    freed.set()


async def test_machines_of_one_name_are_told_apart_and_one_that_comes_back_is_the_one_that_it_was(tmp_path, far):
    addresses, slots = {"a": "ip-1", "b": "ip-2", "c": "ip-1"}, {SANDBOX: 2.0, VERIFIER: 2.0}
    far.members = lambda: [Member(id=one, name="twin", address=addresses[one], slots=slots) for one in far.nodes]
    crew = await _opened(tmp_path, far)
    [back] = [Member(id="c", name="twin", address="ip-1", slots=slots)]
    crew._leave("a")
    await crew._join(back)
    await crew.close_trials()
    assert crew._roster.names == {"a": "twin", "b": "twin (ip-2)", "c": "twin"}


async def test_a_machine_that_comes_back_under_its_name_before_it_was_missed_is_told_as_it_is_now():
    told = []
    roster = Roster(Stage(), told.append, lambda: None, patience=1.0, near=False)
    roster.names = {"before": "host", "now": "host", "other": "other"}
    before, now, other = (Post(roster, SANDBOX, "the process", None, None, node=node) for node in roster.names)
    for post in (before, now, other):
        post._set("ready")
    roster.open()
    for post in (before, other):
        post.leave()
    assert [(state.node, state.state) for state in told[-2:]] == [("host", "ready"), ("other", "gone")]


def test_a_reason_that_all_nodes_have_is_told_once_and_one_of_a_cluster_with_its_node():
    alone = Roster(Stage(), lambda event: None, lambda: None, patience=1.0, near=False)
    Post(alone, SANDBOX, "the process", None, None, node="a")._set("spent", "has hc-ray 0.0.1")
    assert alone.nobody(SANDBOX) == "a: has hc-ray 0.0.1"
    roster = Roster(Stage(), lambda event: None, lambda: None, patience=1.0, near=False)
    for node, why in (("a", "it is full"), ("b", "it is old"), ("c", "it is full")):
        Post(roster, SANDBOX, "the process", None, None, node=node)._set("spent", why)
    assert roster.nobody(SANDBOX).endswith("any more: a, c: it is full; b: it is old")


async def test_all_who_wait_for_a_mend_that_does_not_help_are_told_and_so_is_who_comes_later(tmp_path):
    stage = Stage()
    crew = await _opened(tmp_path, stage, outage_sec=0.03)
    stage.scripts["fault"] = lambda name: "nobody answers"
    told = await asyncio.gather(*(crew.mend(SOMEBODY) for _ in range(8)), return_exceptions=True)
    assert [str(one) for one in told] == ["nobody answers (waited 0.03 s)"] * 8
    assert all(isinstance(one, Broken) for one in told)
    asked = stage.count("fault")
    with pytest.raises(Broken, match="nobody answers"):
        await crew.mend(SOMEBODY)
    assert stage.count("fault") == asked


async def test_a_trial_that_is_cancelled_does_not_end_the_mend_that_others_wait_for(tmp_path):
    away = [True]
    stage = Stage()
    crew = await _opened(tmp_path, stage)
    stage.scripts["fault"] = lambda name: "nobody answers" if away else None
    first, second = asyncio.ensure_future(crew.mend(SOMEBODY)), asyncio.ensure_future(crew.mend(SOMEBODY))
    await asyncio.sleep(0.03)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    away.clear()
    await asyncio.wait_for(second, 5)
    assert first.cancelled()


@pytest.mark.parametrize("turns", range(8))
async def test_a_look_that_ends_while_its_sweep_closes_begins_nothing_anew(tmp_path, turns):
    closing = []

    async def fault(name):
        closing.append(asyncio.ensure_future(crew.close_trials()))
        for _ in range(turns):  # of the loop: in one of them the look is over and has not been told so
            await asyncio.sleep(0)
        return "nobody answers"

    stage = Stage()
    crew = await _opened(tmp_path, stage)
    stage.scripts["fault"] = fault
    looks = asyncio.ensure_future(crew.mend(SOMEBODY))
    await asyncio.sleep(0.02)
    looks.cancel()
    await asyncio.gather(looks, *closing, return_exceptions=True)
    await crew.close()
    asked, made = stage.count("fault"), len(stage.made)
    await asyncio.sleep(0.05)
    assert closing and (stage.count("fault"), len(stage.made)) == (asked, made)


def test_a_trial_begins_once_its_process_knows_where_its_task_can_run(tmp_path):
    stage = Stage(arrange=lambda told: asyncio.sleep(0.05), prepare=lambda name: asyncio.sleep(0.03 * int(name[1:])))
    summary, _ = run(plan_of(tmp_path / "out", 6, retries=PATIENT, concurrency=6), stage)
    assert (summary.done, summary.unscored) == (6, 0)
    assert [attempts_of(one) for one in results_of(tmp_path / "out").values()] == [[]] * 6


def test_a_single_trial_runs_in_its_own_process_whatever_cluster_is_named_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(single, "Cluster", Stage)
    make_task(tmp_path / "set", "add")
    config = SweepConfig(sandbox="bwrap", out=str(tmp_path / "out"))
    with data_home():
        result = single.run_trial(config, str(tmp_path / "set/add"), "nop", seed=10**12, events=Watcher())
        again = prepare(stored_config(config.out), resume=True)
    assert (
        result["verifier_result"]["rewards"] == {"reward": 1.0} and result["agent_result"]["metadata"]["seed"] == 10**12
    )
    assert json.loads((tmp_path / "out/sweep.json").read_text())["place"] == "in-process"
    assert (len(again.trials), again.done) == (1, 1), "a resume means the same trial"
    with data_home(), pytest.raises(OutputError, match="already contains a sweep; choose another -o"):
        single.run_trial(config, str(tmp_path / "set/add"), "nop", seed=0, events=Watcher())


def test_a_single_trial_that_could_not_begin_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(single, "Cluster", lambda: Stage(fault=lambda name: "nobody answers"))
    make_task(tmp_path / "set", "add")
    engine, retries = EngineConfig(kind="scripted", script="tests.fakes.scripts:echo"), RetryConfig(outage_sec=0.05)
    config = SweepConfig(engine=engine, sandbox="bwrap", out=str(tmp_path / "out"), retries=retries)
    with data_home(), pytest.raises(InfrastructureError, match=r"nobody answers \(waited 0\.05 s\)") as told:
        single.run_trial(config, str(tmp_path / "set/add"), "raw", seed=0, events=Watcher())
    assert "resume" not in str(told.value), "one trial has nothing to resume"
