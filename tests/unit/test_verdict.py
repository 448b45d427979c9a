import base64
import json
from typing import Any

import pytest

from hc_ray.blind.grading import control as oracle
from hc_ray.blind.grading import outputs, verify
from hc_ray.blind.grading.verdict import Malformed, Verdict, decide, excused, headline, read_rewards
from hc_ray.blind.sealing import vault
from hc_ray.blind.sealing.kept import keep_value, read_kept
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of
from hc_ray_actors.driver.task_choice import with_network
from tests.fakes.grading import MemoryPlace
from tests.fakes.tars import make_tar
from tests.fakes.tasks import make_task, sealed_task

PROBED = {"exists": [], "workdir": "/app", "bash": True, "path": ["/usr/bin"], "pytest": "own"}


def end(session: str = "s", **counts: Any) -> dict[str, Any]:
    return {"type": "end", "session": session, "exit": 0, "passed": 2, "failed": 0, "errors": 0, **counts}


def start(session: str = "s") -> dict[str, Any]:
    return {"type": "start", "session": session}


LOADED = {"type": "loaded"}
GOOD = [LOADED, start(), end()]


def report(reward: bytes | None = b"1\n", witness: list[Any] = GOOD, **more: Any) -> dict[str, Any]:
    raw = None if reward is None else base64.b64encode(reward).decode()
    return {"exit": 0, "rewards": {"reward.json": None, "reward.txt": raw}, "witness": witness, "output": "", **more}


def submission(files: dict[str, str]) -> Submission:
    task = Task(name="t", digest="d" * 64, instruction="x", environment={"dockerfile": "FROM x"})
    return oracle.make_submission(task, make_tar(files), "trial")


@pytest.mark.parametrize(("json_file", "text_file", "expected"), [
    (None, b"1", 1.0), (None, None, None),
    (None, b" 0.5 \n", 0.5),
    (None, b"0", 0.0),
    (b'{"reward": 1}', b"0", 1.0),
    (b'{"reward": 0.25, "speed": 3}', None, 0.25),
    (b'{"score": 1.0}', None, 1.0),
])  # fmt: skip
def test_rewards_are_read_as_harbor_reads_them(json_file, text_file, expected):
    rewards = read_rewards(json_file, text_file)
    assert (rewards and headline(rewards)) == expected


@pytest.mark.parametrize(("json_file", "text_file"), [
    (None, b""), (None, b"yes"), (None, b"nan"), (None, b"inf"), (None, b"\xff"), (None, b"1 1"),
    (b'{"reward": null}', b"1"), (b'{"a": 1, "b": 1}', b"1"),
    (b"", b"1"), (b"{", b"1"), (b"1", b"1"), (b"[1]", b"1"), (b"{}", b"1"), (b'{"reward": true}', b"1"),
    (b'{"reward": "1"}', b"1"), (b'{"reward": NaN}', b"1"), (b'{"reward": 1e999}', b"1"),
    (b'{"reward": 1' + b"0" * 400 + b"}", b"1"), pytest.param(b"[" * 100000, b"1", id="deep"),
])  # fmt: skip
def test_malformed_rewards_are_no_rewards_and_json_is_not_passed_over(json_file, text_file):
    with pytest.raises(Malformed):
        headline(read_rewards(json_file, text_file))


@pytest.mark.parametrize(("given", "mentions", "cause", "witness"), [
    (report(), True, "passed", "agrees"),
    (report(b"0\n", [LOADED, start(), end(failed=1, exit=1)]), True, "failed", "agrees"),
    (report(b"0.99"), True, "failed", "disagrees"),
    (report(None), True, "no_verdict", "disagrees"),
    (report(b""), True, "empty_verdict", "disagrees"),
    (report(b"yes"), True, "malformed_verdict", "disagrees"),
    (report(timed_out=True), True, "timeout", "disagrees"),
    (None, True, "verifier_lost", "absent"),
    ({"error": "no shell"}, True, "verifier_lost", "absent"),
    (report(witness=[]), False, "passed", "none"),
    (report(witness=[]), True, "witness_absent", "absent"),
    (report(witness=[*GOOD, start("t"), end("t", passed=0, exit=5)]), True, "passed", "agrees"),
    *((report(witness=[LOADED, *told]), True, "witness_disagrees", "disagrees") for told in (
        [], [start()], [end()], [start(), end("other")], [start(), end(), end()], [start(), end(passed=0, exit=5)],
        [start(), end(failed=1)], [start(), end(errors=1)], [start(), end(exit=2)], [start(), end(passed=10**400)],
        [start(), end(), {"type": "garbled"}], [start(), end(), start("t"), end("t", failed=1, exit=1)],
        [start(), {"type": "end", "session": "s"}],
    )),
    (report(witness=[LOADED, *GOOD]), False, "passed", "agrees"),
])  # fmt: skip
def test_a_reward_counts_only_if_the_witness_bears_it_out(given, mentions, cause, witness):
    fields = decide(given, mentions_pytest=mentions)
    assert (fields["cause"], fields["witness"]) == (cause, witness) and fields["passed"] is (cause == "passed")
    Verdict(**fields)


def answering(run: dict[str, Any] | None, **probe: Any) -> Any:
    return lambda sandbox, order: {**PROBED, **probe} if "command" not in order else run


@pytest.fixture
def sealed(tmp_path):
    tests = {"test.sh": "#!/bin/bash -e\npytest /tests\n", "deep/x.txt": "x"}
    return sealed_task(tmp_path, tests=tests), tmp_path / "sealed"


async def test_grading_looks_at_the_image_before_the_submission_and_runs_last(sealed):
    task, root = sealed
    place = MemoryPlace(answering(report()))
    verdict = await verify.grade(task, submission({"/app/a.py": "1"}), sealed_root=root, place=place)
    (sandbox,) = place.made
    assert verdict.passed is True and verdict.witness == "agrees"
    assert sandbox.done == ["probe", "put_tar", "put_tar", "run"] and sandbox.closed and not sandbox.network
    order = sandbox.orders[1]
    assert order["command"] == ["bash", "-e", "/tests/test.sh"]
    assert order["env"]["PYTEST_PLUGINS"] == "hc_witness" and order["timeout"] == 60
    tests = {path for path in sandbox.files if path.startswith("/tests/")}
    assert "/tests/deep/x.txt" in tests and tests & sandbox.executable == {"/tests/test.sh"}
    assert not [path for path in sandbox.files if "canary" in path]
    assert verdict.sealed_digest == vault.load_spec(root, task.digest).sealed_digest


async def test_the_untouched_environment_is_graded_without_a_submission_and_a_tampered_one_is_never_run(sealed):
    task, root = sealed
    place = MemoryPlace(answering(report(b"0")))
    verdict = await verify.grade(task, None, sealed_root=root, place=place)
    assert (verdict.passed, verdict.cause, verdict.submission) == (False, "failed", None)
    assert set(place.made[0].files) == {"/tests/test.sh", "/tests/deep/x.txt"}
    there = {"exists": ["/usr/bin/python3"], "programs": {"python3": ["/usr/bin/python3"]}}
    place = MemoryPlace(answering(report(), **there))
    verdict = await verify.grade(task, submission({"/usr/bin/python3": "x"}), sealed_root=root, place=place)
    assert (verdict.passed, verdict.cause, verdict.tampered) == (False, "tampered", ("/usr/bin/python3",))
    assert place.made[0].done == ["probe"] and place.made[0].closed


async def test_what_a_candidate_can_break_is_a_fail_and_the_machinery_is_unscored(sealed):
    task, root = sealed
    lost = await verify.grade(task, submission({"/app/a": ""}), sealed_root=root, place=MemoryPlace(answering(None)))
    assert (lost.passed, lost.cause) == (False, "verifier_lost")
    bad = Submission(id="i", trial="t", task_digest=task.digest, tar=b"garbage", digest="x")
    refused = await verify.grade(task, bad, sealed_root=root, place=MemoryPlace(answering(report())))
    assert (refused.passed, refused.cause) == (False, "submission_refused")
    with pytest.raises(VerifierError, match="daemon"):
        await verify.grade(task, None, sealed_root=root, place=MemoryPlace(answering(None), broken=True))
    with pytest.raises(VerifierError, match="runner"):
        await verify.grade(task, None, sealed_root=root, place=MemoryPlace(lambda sandbox, order: None))
    with pytest.raises(VerifierError, match="sealed half"):
        await verify.grade(task, None, sealed_root=root / "nowhere", place=MemoryPlace(answering(None)))


def test_a_verdict_that_names_files_can_be_stored_and_has_a_digest_whatever_their_bytes_are():
    verdict = Verdict(passed=False, cause="tampered", left_behind=("/app/\udcff.txt",), detail="\udc80")
    assert Verdict.model_validate_json(verdict.model_dump_json()).left_behind == (r"/app/\udcff.txt",)
    assert digest_of({"/app/\udcff": ""}) != digest_of({"/app/\udcfe": ""})


async def test_output_is_kept_only_where_asked_and_for_its_owner_alone(sealed, tmp_path):
    task, root = sealed
    kept = tmp_path / "outputs" / "x.txt"
    answer = answering(report(output=base64.b64encode(b"E assert 1 == 2").decode()))
    verdict = await verify.grade(task, None, sealed_root=root, place=MemoryPlace(answer), keep_output=kept)
    assert kept.read_bytes() == b"E assert 1 == 2" and kept.stat().st_mode & 0o777 == 0o600
    assert "assert" not in verdict.model_dump_json() and read_kept(kept.with_suffix(".json"), Verdict) == verdict


@pytest.mark.parametrize(
    ("environment", "verifier", "expected"),
    [("", "", False), ("public", "", True), ("public", "no-network", False), ("", "public", True)],
)
def test_grading_has_the_network_that_the_verifier_asks_for(tmp_path, environment, verifier, expected):
    toml = f"[environment]\n{f'network_mode = {environment!r}' if environment else ''}\n"
    toml += f"[verifier]\n{f'network_mode = {verifier!r}' if verifier else ''}\n"
    task = sealed_task(tmp_path, toml=toml)
    assert verify.wants_network(task, vault.load_spec(tmp_path / "sealed", task.digest)) is expected


@pytest.mark.parametrize(("first", "bash", "expected"), [
    (b"#!/bin/bash\n", True, ["bash", "/t"]),
    (b"#!/bin/bash -eu\n", True, ["bash", "-eu", "/t"]),
    (b"#!/usr/bin/env bash\n", False, ["sh", "/t"]),
    (b"echo no first line", True, ["bash", "/t"]),
    (b"#!/usr/bin/env python3\n", True, ["/t"]),
    (b"", False, ["sh", "/t"]),
])  # fmt: skip
def test_scripts_run_under_the_shell_of_their_first_line(first, bash, expected):
    assert verify.shell_command("/t", first, bash=bash) == expected


async def test_the_control_is_run_once_per_sealed_digest_with_and_without_a_network(tmp_path):
    place = MemoryPlace(answering(report()))

    async def control(network: str = "mention") -> int:
        task = with_network(sealed_task(tmp_path), network)
        assert (await oracle.control(task, sealed_root=tmp_path / "sealed", place=place)).passed is True
        return len(place.made)

    roots, printed = {"sealed_root": tmp_path / "sealed", "place": MemoryPlace()}, tmp_path / "printed"
    handed_in = await oracle.reference(sealed_task(tmp_path), keep_solution=printed, **roots)
    assert handed_in.ended == "exit status 0" and printed.stat().st_mode & 0o777 == 0o600
    # One sandbox for the reference, one for its grading.
    assert [await control("task"), await control(), await control()] == [2, 4, 4], "which a reference may need"
    (tmp_path / "set/add/tests/more.txt").write_text("changed")
    assert [await control(), await control()] == [6, 6]


async def test_a_failed_machine_leaves_no_control_behind_and_a_task_without_a_solution_says_so(tmp_path):
    task, place = sealed_task(tmp_path), MemoryPlace(answering(None), broken=True)
    with pytest.raises(VerifierError):
        await oracle.control(task, sealed_root=tmp_path / "sealed", place=place)
    assert not (tmp_path / "sealed/controls").exists()
    task, place = sealed_task(tmp_path / "other", solution={}), MemoryPlace(answering(report()))
    sealed = tmp_path / "other" / "sealed"
    verdict = await oracle.control(task, sealed_root=sealed, place=place)
    assert (verdict.passed, verdict.cause) == (None, "no_reference")
    with pytest.raises(DatasetError, match="no reference solution"):  # no other try mends that
        await oracle.reference(task, sealed_root=sealed, place=place)


def test_a_part_of_the_reward_passes_from_the_threshold_on_as_far_as_the_tests_bear_it_out():
    some = [LOADED, start(), end(exit=1, passed=3, failed=2)]
    assert decide(report(b"0.6", some), mentions_pytest=True)["cause"] == "failed"
    found = decide(report(b"0.6", some), mentions_pytest=True, threshold=0.5)
    assert (found["passed"], found["cause"], found["rewards"]) == (True, "passed", {"reward": 0.6})
    assert decide(report(b"0.4", some), mentions_pytest=True, threshold=0.5)["cause"] == "failed"
    few, cut_off, broken = [end(exit=1, passed=1, failed=4)], [], [end(exit=2, passed=3, failed=0)]
    for reward, told in ((b"0.6", few), (b"1", few), (b"0.6", cut_off), (b"0.6", broken)):
        found = decide(report(reward, [LOADED, start(), *told]), mentions_pytest=True, threshold=0.5)
        assert found["cause"] == "witness_disagrees"


def broken_before(*bad, **counts):
    """A session of a repository that had broken tests before the task."""
    return [LOADED, start(), end(**{"exit": 1, "passed": 3, "failed": len(bad), "bad": list(bad), **counts})]


def test_tests_that_fail_with_the_reference_too_are_no_objection_to_a_reward_and_all_others_are():
    def judged(witness, reward=b"1", threshold=1.0):
        return Verdict(**decide(report(reward, witness), mentions_pytest=True, threshold=threshold))

    reference = judged(broken_before("a", "b"))
    assert (reference.passed, reference.failing) == (False, ("0:a", "0:b"))
    control = excused(reference)
    assert (control.passed, control.cause, control.witness) == (True, "passed", "agrees")
    for handed_in in (broken_before("a", "b"), broken_before("b"), broken_before("a", failed=1, errors=1)):
        assert excused(judged(handed_in), control).passed is True
    assert excused(judged(broken_before("a"), b"0.6", threshold=0.5), control).passed is True
    session = broken_before("a", "b")[1:]
    other = [LOADED, start("t"), end("t"), *session]
    for refused in (
        broken_before("a", "c"),
        broken_before("a", passed=0),
        broken_before("a", exit=2),
        broken_before("a", bad="a"),
        broken_before("a", bad=["a", 1]),
        [LOADED, start(), end(exit=1, failed=1)],
        [*session, {"type": "garbled"}],
        [*session, start("t")],
        other,  # "a" and "b" of the second session are others
    ):
        verdict = excused(judged(refused), control)
        assert (verdict.passed, verdict.cause, verdict.failing) == (False, "witness_disagrees", ())
    assert excused(judged(broken_before("a"))).passed is True
    assert excused(judged(broken_before("a"), b"0"), control).passed is False
    assert excused(judged(broken_before("a")), judged([LOADED, *GOOD])).passed is False


def test_pytest_that_reports_with_nobody_is_asked_of_nobody_and_one_that_reports_with_the_reference_of_all():
    silent = Verdict(**decide(report(witness=[]), mentions_pytest=True))
    control = excused(silent)
    assert (control.passed, control.witness) == (True, "none") and excused(silent, control).passed is True
    for other in (Verdict(**decide(report(), mentions_pytest=True)), Verdict(passed=None, cause="no_reference")):
        assert (excused(silent, other).passed, excused(silent, other).cause) == (False, "witness_absent")
    failed = Verdict(**decide(report(b"0", []), mentions_pytest=True))
    assert excused(failed, control).passed is False


async def test_tests_that_were_sealed_anew_are_not_graded_with(tmp_path):
    make_task(tmp_path / "set")
    roots = (tmp_path / "public", tmp_path / "sealed")
    before = vault.seal(tmp_path / "set", *roots)
    (task,) = before.tasks
    planned = before.sealed_digests[task.digest]
    place = MemoryPlace(answering(report()))
    options: dict[str, Any] = {"sealed_root": roots[1], "place": place, "expected": planned}
    assert (await verify.grade(task, None, **options)).passed is True
    make_task(tmp_path / "set", tests={"test.sh": "echo 1 > /logs/verifier/reward.txt\n"})
    assert vault.seal(tmp_path / "set", *roots).sealed_digests[task.digest] != planned
    control = oracle.control(task, **options)
    for refused in (verify.grade(task, None, **options), oracle.reference(task, **options), control):
        with pytest.raises(VerifierError, match="tests changed since this sweep was planned"):
            await refused


def test_what_an_earlier_version_kept_of_a_grading_can_be_unsealed(tmp_path):
    path = outputs.output_file(tmp_path, "task", None)
    keep_value(path.with_suffix(".json"), Verdict(passed=False, cause="failed"))
    kept = path.with_suffix(".json")
    kept.write_text(json.dumps({**json.loads(kept.read_bytes()), "started_at": "2026-11-28T10:00:00+00:00"}))
    assert outputs.unseal(tmp_path, "task", None, "trial").verdict == Verdict(passed=False, cause="failed")
