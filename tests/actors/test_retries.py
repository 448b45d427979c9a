"""What becomes of trials when something outside the sandboxes fails, with actors that are played."""

import asyncio
import json

import pytest

from hc_ray.domain import errors
from hc_ray.domain.config import RetryConfig, SolverConfig
from hc_ray.domain.errors import DatasetError, EngineError, SandboxError, VerifierError
from hc_ray.domain.task import Environment, Task
from hc_ray_actors.attempts import LONGEST, backoff, fault_of
from hc_ray_actors.engine import Endpoint
from hc_ray_actors.trials import Step
from tests.fakes.crew import Stage, attempts_of, failing, outcome, plan_of, results_of, run, submission, verdict


@pytest.mark.parametrize(("method", "fault", "times", "settings", "made"), [
    ("grade", VerifierError("the sandbox broke"), 2, {}, {"solve": 1, "grade": 3}),
    ("solve", EngineError("connection refused"), 1, {}, {"solve": 2, "grade": 1}),
    ("grade", VerifierError("no sandbox"), 1, {"agents": ("oracle",)}, {"reference": 1, "grade": 2}),
    ("grade", VerifierError("the sandbox is gone"), 1, {"shared": True}, {"solve": 2, "grade": 2}),
], ids=["a grading, with what was handed in", "an attempt that an engine ended", "an oracle's grading alone",
        "a shared grading that takes its sandbox with it, after another solution"])  # fmt: skip
def test_what_the_machinery_broke_is_tried_again_and_told(tmp_path, method, fault, times, settings, made):
    stage = Stage(**{method: failing(fault, times)})
    summary, watcher = run(plan_of(tmp_path / "out", 1, **settings), stage)
    assert (summary.done, summary.unscored) == (1, 0) and {name: stage.count(name) for name in made} == made
    result = results_of(tmp_path / "out")["t0"]
    assert result["verifier_result"]["rewards"] == {"reward": 1.0} and result["exception_info"] is None
    told = [(a["stage"], a["number"], a["error"], a["error_type"]) for a in attempts_of(result)]
    assert told == [(method, number + 1, str(fault), type(fault).__name__) for number in range(times)]
    assert all(a["at"] and ("shared" in settings or a["again_after_sec"] > 0) for a in attempts_of(result))
    assert [event.cause for event in watcher.of("error")] == [type(fault).__name__] * times


def test_a_trial_that_cannot_be_graded_is_unscored_and_a_resume_grades_it_without_asking_a_model(tmp_path):
    out = tmp_path / "out"
    broken = Stage(grade=failing(VerifierError("docker is off")))
    summary, _ = run(plan_of(out), broken)
    assert (summary.done, summary.unscored) == (2, 1)
    assert broken.count("fail") == 1, "the trial is told that there is no verdict"
    before = results_of(out)["t0"]
    assert before["verifier_result"] is None
    assert before["exception_info"]["exception_message"] == "docker is off" and len(attempts_of(before)) == 3
    assert before["agent_result"]["n_input_tokens"] == 30

    plan = plan_of(out)
    assert len(plan.found.unscored) == 1
    mended = Stage()
    summary, _ = run(plan, mended)
    assert (summary.done, summary.unscored) == (2, 0) and mended.count("solve") == 0 and mended.count("grade") == 1
    after = results_of(out)["t0"]
    assert after["verifier_result"]["rewards"] == {"reward": 1.0}
    assert after["agent_result"]["metadata"]["score"] == 1099.0
    assert after["agent_result"]["n_input_tokens"] == 30 and attempts_of(after) == attempts_of(before)
    assert not list(out.glob("trials/*/exception.txt")) and plan_of(out).found.unscored == ()


def test_a_verdict_is_never_asked_for_twice_even_when_its_trial_dies_of_it(tmp_path):
    stage = Stage(grade=lambda name: verdict(False))
    stage.die_once("Trials", "resume")
    summary, _ = run(plan_of(tmp_path / "out", 1), stage)
    assert (summary.done, summary.unscored) == (1, 0) and stage.count("grade") == 1
    result = results_of(tmp_path / "out")["t0"]
    metadata = result["agent_result"]["metadata"]
    assert result["verifier_result"]["rewards"] == {"reward": 0.0} and metadata["bits"] == [False]
    assert "could not continue after" in metadata["notes"][-1] and result["agent_result"]["n_output_tokens"] == 12


def test_a_task_whose_reference_fails_is_looked_at_twice_and_all_its_trials_are_unscored(tmp_path):
    stage = Stage(control=lambda name: verdict(False) if name == "t0" else None)
    summary, _ = run(plan_of(tmp_path / "out", 3, seeds=4, concurrency=3), stage)
    assert (summary.done, summary.unscored) == (12, 4) and stage.count("control", "t0") == 2
    assert stage.count("grade", "t0") == 0 and (stage.count("grade", "t1"), stage.count("grade", "t2")) == (4, 4)
    result = results_of(tmp_path / "out")["t0"]
    told = result["exception_info"]
    assert told["exception_type"] == "ControlError" and "--grading shared" in told["exception_message"]
    assert [a["stage"] for a in attempts_of(result)] == ["control", "control"]


def test_a_reference_that_was_late_once_costs_no_trial(tmp_path):
    late = {"t0": verdict(False, "timeout")}
    summary, _ = run(plan_of(tmp_path / "out", seeds=2), Stage(control=lambda name: late.pop(name, None)))
    assert summary.unscored == 0 and not late


def test_a_control_that_the_machinery_broke_is_looked_at_again_by_the_tasks_next_trial(tmp_path):
    out = tmp_path / "out"
    solved = []

    async def later(name):
        solved.append(name)
        while len(solved) > 1 and not results_of(out):
            await asyncio.sleep(0.01)

    stage = Stage(control=failing(VerifierError("no sandbox"), 3), solve=lambda name: later(name))
    summary, _ = run(plan_of(out, 1, seeds=2), stage)
    assert (summary.done, summary.unscored) == (2, 1) and stage.count("control") == 4


def test_an_image_that_does_not_build_is_tried_a_few_times_for_all_trials_of_the_task(tmp_path):
    fault = SandboxError("t0: its image cannot be built: exit 3; docker build shows why\nStep 1/2")
    stage = Stage(prepare=failing(fault))
    summary, watcher = run(plan_of(tmp_path / "out", 2, seeds=5, concurrency=4), stage)
    assert (summary.done, summary.unscored) == (10, 5) and stage.count("prepare", "t0") == 3
    assert stage.count("solve", "t0") == 0
    assert {a["stage"] for a in attempts_of(results_of(tmp_path / "out")["t0"])} == {"environment"}
    says = [event.text for event in watcher.of("error")]
    whole = "t0: environment: its image cannot be built: exit 3; docker build shows why"
    assert [text.partition("; again in ")[0] for text in says] == [whole] * 3 and says[2] == whole
    starts = {event.trial for event in watcher.of("trial_start")}
    assert starts == {event.trial for event in watcher.of("trial_complete")}


@pytest.mark.parametrize(("method", "fault", "trace"), [
    ("prepare", DatasetError("its image cannot be built: COPY failed"), None),
    ("solve", KeyError("nobody thought of this"), "KeyError"),
], ids=["a fault of the task's", "a bug, told with its traceback"])  # fmt: skip
def test_what_no_other_try_mends_is_tried_once(tmp_path, method, fault, trace):
    stage = Stage(**{method: failing(fault)})
    summary, _ = run(plan_of(tmp_path / "out"), stage)
    assert (summary.done, summary.unscored, stage.count(method, "t0")) == (2, 1, 1)
    told = results_of(tmp_path / "out")["t0"]["exception_info"]["exception_traceback"]
    assert trace in told if trace else told == ""


@pytest.mark.parametrize("method", ["prepare", "control", "grade"])
def test_what_never_ends_for_one_task_lets_the_others_end_meanwhile(tmp_path, method):
    out = tmp_path / "out"

    async def hang(name):
        if name == "t0":
            async with asyncio.timeout(60):
                while len(list(out.glob("trials/*/result.json"))) < 8:
                    await asyncio.sleep(0.01)

    summary, watcher = run(plan_of(out, 5, seeds=2, concurrency=1), Stage(**{method: lambda name: hang(name)}))
    assert (summary.done, summary.unscored) == (10, 0)
    ends = [event.trial.partition("__")[0] for event in watcher.of("trial_complete")]
    assert ends[-2:] == ["t0", "t0"]


def test_a_back_off_keeps_nobody_else_from_working(tmp_path):
    stage = Stage(solve=failing(EngineError("slow down"), 1))
    waits = RetryConfig(attempts=2, backoff_sec=0.5, outage_sec=0)
    _, watcher = run(plan_of(tmp_path / "out", 4, retries=waits, concurrency=1), stage)
    ends = [event.trial.partition("__")[0] for event in watcher.of("trial_complete")]
    assert ends[-1] == "t0"


def test_a_shared_grading_that_never_works_is_tried_as_often_as_any_other(tmp_path):
    out, stage, mended = tmp_path / "out", Stage(grade=failing(VerifierError("docker is off"))), Stage()
    summary, _ = run(plan_of(out, 1, shared=True), stage)
    assert (summary.done, summary.unscored) == (1, 1) and (stage.count("solve"), stage.count("grade")) == (3, 3)
    summary, _ = run(plan_of(out, 1, shared=True), mended)
    assert (summary.unscored, mended.count("solve")) == (0, 1)


def test_what_engines_were_seen_to_do_is_recorded_with_the_sweep(tmp_path):
    seen = Endpoint(base_urls=("http://127.0.0.1:1/v1",), model="fake", capabilities={"seed": True, "n": False})
    run(plan_of(tmp_path / "out", 1), Stage(engine=lambda name: seen))
    sweep = json.loads((tmp_path / "out" / "sweep.json").read_text())
    assert sweep["engines"] == {"nowhere:nothing": [{"model": "fake", "capabilities": {"seed": True, "n": False}}]}


def test_a_trial_that_refines_keeps_its_first_verdict_when_the_second_cannot_be_had(tmp_path):
    verdicts = [verdict(False)]

    def once(name):
        if verdicts:
            return verdicts.pop()
        raise VerifierError("docker is off")

    def again(name):
        task = Task(name="t0", digest="0" * 64, instruction="do it", environment=Environment())
        return Step(submission=submission(task, "second"), outcome=outcome())

    plan = plan_of(tmp_path / "out", 1, agents=("hc",), solver=SolverConfig(refinement=1))
    summary, _ = run(plan, Stage(grade=once, resume=again))
    result = results_of(tmp_path / "out")["t0"]
    assert (summary.done, summary.unscored) == (1, 0) and result["verifier_result"]["rewards"] == {"reward": 0.0}
    assert result["agent_result"]["metadata"]["bits"] == [False]
    assert [a["stage"] for a in attempts_of(result)] == ["grade"] * 3


@pytest.mark.parametrize(("kind", "faults"), [
    ("infrastructure", [errors.EngineError("dead"), errors.SandboxError("no daemon"), errors.VerifierError("no runner"),
                        errors.ActorError("killed"), errors.StoreError("gone"), OSError(28, "No space left on device"),
                        MemoryError()]),
    ("reference", [errors.ControlError("its reference fails")]),
    ("user", [errors.DatasetError("no such task")]),
    ("bug", [KeyError("x"), errors.LeakError("a canary")]),
])  # fmt: skip
def test_each_fault_is_of_one_kind_and_a_known_one_is_told_without_a_traceback(kind, faults):
    assert [fault_of(error).kind for error in faults] == [kind] * len(faults)
    assert fault_of(faults[0]).trace == "" or kind == "bug"


def test_the_back_off_doubles_up_to_its_limit_with_a_jitter_that_is_always_the_same():
    retries = RetryConfig(backoff_sec=2.0)
    waits = [backoff(retries, number, "a") for number in range(1, 9)]
    for number, wait in enumerate(waits):
        plain = min(LONGEST, 2.0 * 2**number)
        assert plain <= wait <= 1.5 * plain
    assert waits == [backoff(retries, number, "a") for number in range(1, 9)]
    assert waits != [backoff(retries, number, "b") for number in range(1, 9)]
