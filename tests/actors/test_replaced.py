"""Actors whose process dies are replaced, and what they were at is done again, with actors that are played."""

import asyncio
import signal
import threading
from types import SimpleNamespace

import pytest

from hc_ray.domain.config import EngineConfig, RetryConfig
from hc_ray.domain.errors import ActorError, EngineError, InfrastructureError, PlatformError, SandboxError
from hc_ray.domain.events import ErrorEvent
from hc_ray.domain.ports import Capabilities
from hc_ray_actors.driver.configs import PlannedConfig
from hc_ray_actors.driver.crew import posts
from hc_ray_actors.driver.crew.posts import Post
from hc_ray_actors.driver.crew.roster import Roster
from hc_ray_actors.driver.crew.trial_processes import TrialProcesses
from hc_ray_actors.engine import Engine
from tests.fakes import crew
from tests.fakes.crew import Lagging, Stage, attempts_of, failing, plan_of, results_of, run


@pytest.mark.parametrize(("kind", "method", "fault", "told"), [
    ("Trials", "solve", None, {"clear": 1}),
    ("Verifiers", "leaks", None, {}),
    ("Verifiers", "grade", None, {"solve": 3}),
    ("Sandboxes", "solve", SandboxError("the process that answers exec is gone"), {}),
    ("Engine", "solve", EngineError("connection refused"), {}),
], ids=["trials are made again and their sandboxes cleared", "nothing is written unscanned",
        "what was handed in is graded by the next", "trials are told of new sandboxes",
        "trials are told where the new engine is"])  # fmt: skip
def test_an_actor_whose_process_is_killed_is_replaced(tmp_path, kind, method, fault, told):
    stage = Stage()
    stage.die_once(kind, method, fault)
    summary, _ = run(plan_of(tmp_path / "out", 3, concurrency=3), stage)
    assert (summary.done, summary.unscored, summary.stopped) == (3, 0, False) and stage.made.count(kind) == 2
    assert {name: stage.count(name) for name in told} == told
    assert summary.problems == ("processes of the sweep that died and were restarted: 1",)
    failed = {one["error_type"] for result in results_of(tmp_path / "out").values() for one in attempts_of(result)}
    assert failed <= {type(fault or ActorError("")).__name__}


@pytest.mark.parametrize(("kind", "method"), [("Trials", "solve"), ("Verifiers", "grade")])
def test_an_actor_whose_process_hangs_is_ended_and_another_does_its_work(tmp_path, monkeypatch, kind, method):
    monkeypatch.setattr(posts, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(posts, "PULSE_SECONDS", 0.05)
    stage = Stage()

    def hang(name):
        if not any(actor.hung for actor in stage.living[kind]):
            stage.living[kind][-1].hung = True

    stage.scripts[method] = hang
    summary, _ = run(plan_of(tmp_path / "out", 3, concurrency=3), stage)
    assert (summary.done, summary.unscored, summary.stopped) == (3, 0, False) and stage.made.count(kind) == 2
    told = [attempts_of(result) for result in results_of(tmp_path / "out").values()]
    assert any(told) and {one["error_type"] for failed in told for one in failed} == {"ActorError"}


def test_an_engine_whose_server_hangs_is_replaced_before_a_request_to_it_has_spent_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(posts, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(posts, "PULSE_SECONDS", 0.05)
    ill = []

    async def asks(name):
        if not ill:
            ill.append(name)
            while stage.made.count("Engine") == 1:  # as long as its server is there, it says nothing
                await asyncio.sleep(0.01)
            raise EngineError("the server closed the connection")

    async def alive(kind):
        return kind != "_Engine" or not ill or stage.made.count("Engine") > 1

    stage = Stage(solve=asks, alive=alive)
    late = threading.Timer(20, signal.raise_signal, [signal.SIGINT])
    late.start()
    summary, _ = run(plan_of(tmp_path / "out", 1), stage)
    late.cancel()
    assert (summary.done, summary.unscored, summary.interrupted) == (1, 0, False)


def test_a_sweep_whose_engines_find_no_free_slot_is_refused_as_one_without_sandboxes_is(tmp_path):
    stage = Stage()
    stage.free = lambda resource: {}
    stage.holders = lambda: ["another sweep"]
    plan, engine = plan_of(tmp_path / "out"), EngineConfig(kind="server", command="vllm", model="m")
    _, profile, digest = next(iter(plan.models.values()))
    models = dict.fromkeys(plan.models, (engine, profile, digest))
    with pytest.raises(PlatformError, match=r"has a free engine_slot.*; at work: another sweep"):
        run(plan.model_copy(update={"models": models}), stage)


def test_a_sweep_whose_engine_hangs_while_it_starts_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(posts, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(posts, "PULSE_SECONDS", 0.05)
    stage = Stage()
    stage.scripts["engine"] = lambda name: setattr(stage.living["Engine"][-1], "hung", True)
    with pytest.raises(ActorError):
        run(plan_of(tmp_path / "out"), stage)


def test_a_trial_that_goes_on_while_its_process_is_replaced_waits_until_the_next_is_fit_for_work(tmp_path):
    died = []

    async def solve(name):
        if not died and name == "t0":
            raise EngineError("connection refused")  # it is tried again after a moment
        if not died:
            await asyncio.sleep(0.05)
            died.append(name)
            stage.die("Trials")

    async def alive(kind):
        if died and kind == "_Trials" and stage.made.count("Trials") == 2:
            await asyncio.sleep(0.4)

    stage, retries = Stage(solve=solve, alive=alive), RetryConfig(attempts=3, backoff_sec=0.1, outage_sec=30)
    summary, _ = run(plan_of(tmp_path / "out", 2, concurrency=2, retries=retries), stage)
    assert (summary.done, summary.unscored) == (2, 0) and stage.made.count("Trials") == 2


def does_not_come_up():
    def start(name):
        if stage.made.count("Engine") > 1:
            raise EngineError("no memory for the weights")

    def dies(name):
        stage.die("Engine")
        raise EngineError("connection refused")

    stage = Stage(engine=start, solve=dies)
    return stage


def stays_away():
    away = "nobody answers at /var/run/docker.sock"
    stage = Stage(fault=lambda name: away if stage.count("solve") else None,
                  solve=failing(SandboxError("Docker: no answer from the daemon")))  # fmt: skip
    return stage


@pytest.mark.parametrize(("played", "says"), [
    (does_not_come_up, "cannot be restarted: no memory for the weights"),
    (stays_away, "nobody answers at /var/run/docker.sock"),
])  # fmt: skip
def test_what_stays_away_stops_the_sweep_with_one_line_and_a_resume_does_the_rest(tmp_path, played, says):
    out = tmp_path / "out"
    summary, _ = run(plan_of(out, 4), played())
    told = [one for one in summary.problems if one.endswith(f"{says} (waited 0.05 s)")]
    assert summary.stopped and len(told) == 1 and "\n" not in told[0]
    left = results_of(out)  # trials that met it keep their evidence; the others do not exist
    assert 1 <= len(left) < 4 and all(len(attempts_of(result)) == 1 for result in left.values())
    summary, _ = run(plan_of(out, 4), Stage())
    assert (summary.done, summary.unscored, summary.stopped) == (4, 0, False)


def test_what_the_plan_saw_of_a_server_holds_for_its_first_engine_and_not_for_one_that_takes_its_place(tmp_path):
    class Giving(Stage):
        given = []

        def spawn(self, cls, *args, **where):
            self.given += args[1:] if cls is Engine else ()
            return super().spawn(cls, *args, **where)

    stage, plan, seen = Giving(), plan_of(tmp_path / "out"), Capabilities(seed=True)
    stage.die_once("Engine", "solve", EngineError("connection refused"))
    config = PlannedConfig(name="", config=plan.config, seen={plan.engines[0]: (seen,)})
    summary, _ = run(plan.model_copy(update={"configs": (config,)}), stage)
    assert (summary.done, summary.unscored) == (2, 0) and stage.given == [seen, None]


async def test_a_post_without_a_free_slot_for_its_next_actor_waits_for_one_however_often_it_looks():
    room, roster = [True], Roster(Stage(), lambda event: None, lambda: None, patience=1.0, near=False)

    def make(post):
        if not room[0]:
            raise InfrastructureError("no node has a free engine_slot")
        return crew._Engine(Stage())

    async def begin(post):
        await post.actor.start()

    post = Post(roster, "engine m", "the engine m", make, begin)
    await post.open()
    post.actor.dead, room[0] = True, False
    for _ in range(posts.RESTARTS + 2):
        await post.check()
    assert (post.state, post.renewed) == ("resting", 0)
    room[0] = True
    await post.check()
    await roster.close()
    assert (post.state, post.renewed) == ("ready", 1)


async def test_a_post_whose_actor_never_starts_tells_why_at_each_look_and_at_its_end():
    why = "the process that serves alive did not start (ModuleNotFoundError: No module named 'hc_ray')"

    def fails(name):
        raise ActorError(why)

    roster = Roster(Stage(), lambda event: None, lambda: None, patience=1.0, near=False)
    stage = Stage(alive=fails)
    post = Post(roster, "sandbox_slot", "the sandboxes' process", lambda post: crew._Sandboxes(stage), None)
    with pytest.raises(ActorError):
        await post.open()
    told = []
    while post.state != "spent":
        await post.check()
        told.append(post.why)
    await roster.close()
    assert len(told) == posts.RESTARTS + 1 and all(why in one for one in told), told


async def test_an_actor_that_dies_while_it_is_checked_has_died_and_is_restarted_by_the_next_check():
    roster, dies = Roster(Stage(), lambda event: None, lambda: None, patience=1.0, near=False), []

    def fault(name):
        if dies and dies.pop():
            raise ActorError("the process that serves fault is gone")

    async def begin(post):
        pass

    stage = Stage(fault=fault)
    post = Post(roster, "sandbox_slot", "the sandboxes' process", lambda post: crew._Sandboxes(stage), begin)
    await post.open()
    dies.append(True)
    await post.check()
    assert (post.state, post.why) == ("resting", "the sandboxes' process died")
    await post.check()
    await roster.close()
    assert post.state == "ready"


def test_an_actor_that_keeps_dying_stops_the_sweep(tmp_path):
    stage = Stage(grade=lambda name: stage.die("Verifiers"))
    summary, _ = run(plan_of(tmp_path / "out", 9, retries=RetryConfig(attempts=9, backoff_sec=0)), stage)
    assert summary.stopped and f"the verifier's process died {posts.RESTARTS + 1} times" in summary.problems[0]


def test_trials_and_tracker_stand_on_the_drivers_node_and_so_do_those_that_take_their_place(tmp_path):
    stage = Stage()
    stage.die_once("Trials", "solve")
    summary, _ = run(plan_of(tmp_path / "out", mlflow_uri="http://tracker"), stage)
    assert summary.tracked == "the run" and stage.stood["Trials"] == [stage.here, stage.here]
    assert stage.stood["Tracker"] == [stage.here]


def test_on_a_cluster_that_goes_on_the_next_sweep_finds_the_slots_of_the_one_before_free(tmp_path):
    stage = Lagging()
    for number in range(2):
        summary, _ = run(plan_of(tmp_path / str(number), 1), stage)
        assert (summary.done, summary.unscored) == (1, 0) and stage.looks > 3
        ended = ("Engine", "Sandboxes", "Verifiers", "Trials")
        assert all(actor.dead for kind in ended for actor in stage.living[kind])


async def test_who_waits_for_a_process_that_came_and_went_unheard_is_told_that_it_died(tmp_path):
    first, second = crew._Trials(Stage()), crew._Trials(Stage())
    plan = plan_of(tmp_path / "out", 1)
    processes = TrialProcesses(plan, Stage(), SimpleNamespace(posts=[]), None, None, emit=lambda event: None)
    post = Post(SimpleNamespace(posts=[]), "trials", "the trials' process", None, None)
    post.actor, processes.posts = first, [post]

    async def begin(actor):
        post.actor = second

    waiting = asyncio.ensure_future(processes.step(plan.trials[0], begin))
    await asyncio.sleep(0)
    listening = asyncio.ensure_future(processes._listen(post))
    with pytest.raises(ActorError, match="the trials' process died"):
        await asyncio.wait_for(waiting, 5)
    processes._closing = True
    await listening


async def test_what_a_process_of_trials_tells_while_it_is_stopped_is_heard(tmp_path):
    class Telling(crew._Trials):
        async def stop(self):
            self.said += [ErrorEvent(text="the first"), ErrorEvent(text="the last")]

    heard = []
    processes = TrialProcesses(plan_of(tmp_path / "out"), Stage(), None, None, None, emit=heard.append)
    post = Post(SimpleNamespace(posts=[]), "trials", "the trials' process", None, None)
    post.actor, processes.posts = Telling(Stage()), [post]
    await processes.stop()
    assert [event.text for event in heard] == ["the first", "the last"]
