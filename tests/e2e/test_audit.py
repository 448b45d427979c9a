"""An audit in real sandboxes of a sweep whose truth is known: a valid, an invalid, a trivial, a flaky and a too strict
test; right and wrong candidates; a task whose tests are no pytest, and one whose reference fails."""

import asyncio
import json
import stat
import time
from pathlib import Path

import pytest

from hc_ray.cli.app import run
from hc_ray.domain.candidate import Candidate
from hc_ray.domain.config import EngineConfig
from hc_ray.domain.errors import ConfigError, OutputError
from hc_ray.domain.suite import ExpectedValue, GateVerdict, Property, Rejected, SelfTest, Subject, Suite, Unknown
from hc_ray.domain.value import digest_of
from hc_ray.machine.lease import LEASE, Held
from hc_ray.machine.paths import data_root
from hc_ray.reports import report
from hc_ray.sandboxes.bwrap.sandbox import BwrapPlace
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import verifiers
from hc_ray_actors.driver.task_choice import sealed_folder
from hc_ray_actors.jobs import audit as auditing
from tests.fakes import sweepdir
from tests.fakes.sandbox_home import own_home
from tests.fakes.tasks import make_task

SHOUT_SH = """#!/bin/bash
[ "$(sh /app/shout.sh hi)" = HI ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
SHOUT_SOLVE = "#!/bin/bash\nprintf 'echo \"$1\" | tr a-z A-Z\\n' > /app/shout.sh\n"
TWICE = "echo x >> /tmp/audit-count; [ $(wc -l < /tmp/audit-count) -eq 2 ] && echo yes"
"""A command that succeeds the second time only."""
RIGHT = {"add.py": "def add(a, b):\n    return b + a\n"}
WRONG = {"minus": {"add.py": "def add(a, b):\n    return a - b\n"},
         "five": {"add.py": "def add(a, b):\n    return 5\n"},
         "absolute": {"add.py": "def add(a, b):\n    return abs(a) + abs(b)\n"}}  # fmt: skip


def of_add(identity, call, expectation, category="happy_path", **more):
    subject = Subject(kind="call", path="add.py", function="add")
    return SelfTest(id=identity, category=category, subject=subject, input=call, expectation=expectation, **more)


def of_file(identity, expectation, category):
    subject = Subject(kind="file", path="add.py")
    return SelfTest(id=identity, category=category, subject=subject, expectation=expectation)


ADMITTED = (
    of_add("valid", "add(2, 3)", ExpectedValue(value="5")),
    of_file("trivial", Property(name="exists"), "existence"),
    SelfTest(id="flaky", category="integration", subject=Subject(kind="command", path=""), input=TWICE,
             expectation=ExpectedValue(value="yes")),
    of_file("strict", ExpectedValue(value="def add(a, b):\n    return a + b"), "format"),
    of_add("input", "add(1, 1)", Unknown(), "boundary"),
)  # fmt: skip
DROPPED = (of_add("invalid", "add(2, 2)", ExpectedValue(value="5"), "boundary"),)
SHOUT = (
    SelfTest(id="shouts", category="happy_path", subject=Subject(kind="command", path="shout.sh"), input="hi",
             expectation=ExpectedValue(value="HI")),
    SelfTest(id="refuses", category="invalid_input", subject=Subject(kind="command", path="shout.sh"),
             expectation=Rejected()),
)  # fmt: skip


def write_sweep(out: Path, dataset: Path, *, split: str = "dev") -> None:
    """A finished sweep of the dataset, as its trials would have left it."""
    sealed = verifiers.seal(dataset, data_root() / "public", sealed_folder(dataset))
    tasks = {task.name: task for task in sealed.tasks}
    engine = EngineConfig(kind="scripted", script="made:by-hand")
    store = sweepdir.sweep(
        dataset=str(dataset), split=split, sandbox="bwrap", planned_trials=3,
        tasks=[{"name": task.name, "digest": task.digest} for task in sealed.tasks],
        sealed_digest=digest_of(sealed.sealed_digests), models={"tester": {"engine": engine.model_dump(mode="json")}},
    )  # fmt: skip
    write_suite(store, tasks["add"].digest, ADMITTED, DROPPED)
    write_suite(store, tasks["shout"].digest, SHOUT, ())
    write_suite(store, tasks["broken"].digest, (of_add("any", "add(1, 1)", ExpectedValue(value="2")),), ())
    pool = [RIGHT, *WRONG.values(), {}, RIGHT]
    write_trial(store, tasks["add"], 0, pool, chosen=0, passed=True)
    # What was handed in fails the real tests: the verdict that is stored cannot be right.
    write_trial(store, tasks["add"], 1, pool, chosen=1, passed=True)
    write_trial(store, tasks["shout"], 0, [{"shout.sh": 'echo "$1"\n'}], chosen=0, passed=False)
    store.save(out)


def write_suite(store, task_digest, admitted, dropped):
    gate = [GateVerdict(id=test.id, admitted=test in admitted, reason="made") for test in (*admitted, *dropped)]
    key = digest_of(task_digest)
    suite = Suite(key=key, task_digest=task_digest, tests=admitted, dropped=dropped, gate=tuple(gate))
    store.write(f"suites/{suite.key}.json", suite.model_dump_json().encode())


def write_trial(store, task, seed, pool, *, chosen, passed):
    candidates = [
        Candidate(id=f"c1.{i}", round=1, slot=i, seed=i, temperature=0.5, form="chat", plan="plain", files=files,
                  prompt_tokens=60, completion_tokens=40).model_dump(mode="json")
        for i, files in enumerate(pool)
    ]  # fmt: skip
    name = sweepdir.add_trial(store, task.name, "hc", passed, seed=seed, digest=task.digest,
                              metadata={"selection": {"chosen": f"c1.{chosen}"}})  # fmt: skip
    store.write(f"trials/{name}/agent/candidates.json", json.dumps(candidates).encode())


@pytest.fixture(scope="module")
def home():
    with own_home() as own:
        yield own


@pytest.fixture(scope="module")
def swept(home, tmp_path_factory):
    root = tmp_path_factory.mktemp("audit")
    make_task(root / "tasks", "add")
    make_task(root / "tasks", "shout", instruction="Write /app/shout.sh, which prints its argument in capitals.\n",
              tests={"test.sh": SHOUT_SH}, solution={"solve.sh": SHOUT_SOLVE})  # fmt: skip
    make_task(root / "tasks", "broken", instruction="Write add.py with add(a, b), the sum, and be quick.\n",
              solution={"solve.sh": "#!/bin/bash\ntrue\n"})  # fmt: skip
    write_sweep(root / "out", root / "tasks")
    return root / "out"


@pytest.fixture(scope="module")
def opened():
    """The names of all sandboxes so far."""
    names, create = [], BwrapPlace.create

    async def noted(place, task, name, **more):
        names.append(name)
        return await create(place, task, name, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BwrapPlace, "create", noted)
        yield names


@pytest.fixture(scope="module")
def audited(swept, opened):
    """The audit, broken off after its first task and begun again."""

    def stop_at_first(_: str) -> None:
        raise KeyboardInterrupt

    prepared = auditing.prepare(str(swept))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(auditing.measured(prepared, stop_at_first))
    assert not (swept / "audit.json").exists()
    before = len(opened)
    summary, outcome = auditing.run(prepared)
    assert 0 < before < len(opened)
    return summary, outcome


def counts(share):
    return share["hits"], share["of"]


def suite_of(summary, task):
    return next(suite for suite in summary["suites"] if suite["task"] == task)


def test_each_test_is_what_it_was_made_to_be(audited):
    before, after = suite_of(audited[0], "add")["generated"], suite_of(audited[0], "add")["admitted"]
    assert (before["tests"], after["tests"], before["judging"], after["judging"]) == (6, 5, 5, 4)
    assert (counts(before["validity"]), counts(after["validity"])) == ((3, 5), (3, 4))
    assert (counts(before["triviality"]), counts(after["triviality"])) == ((1, 5), (1, 4))
    assert (counts(before["flakiness"]), counts(after["flakiness"])) == ((1, 5), (1, 4))
    assert (counts(before["discrimination"]), counts(after["discrimination"])) == ((2, 5), (1, 4))


def test_faults_are_candidates_that_the_real_tests_fail(audited):
    summary = audited[0]
    assert summary["faults"] == {"candidates_failing": 4, "candidates_passing": 1}
    assert counts(suite_of(summary, "add")["admitted"]["fault_detection"]) == (3, 3)


def test_the_too_strict_test_rejects_the_right_candidate_and_one_real_test_of_two_is_covered(audited):
    after = suite_of(audited[0], "add")["admitted"]
    assert (counts(after["false_rejection"]), counts(after["overlap"])) == ((1, 1), (1, 2))


def test_what_no_pytest_allows_is_not_measured_and_of_a_failing_reference_nothing_said(audited):
    after = suite_of(audited[0], "shout")["admitted"]
    assert after["overlap"]["value"] is None
    assert counts(after["validity"]) == (2, 2) and counts(after["fault_detection"]) == (1, 1)
    summary = audited[0]
    assert summary["unmeasured"] == {"broken": "its reference fails its own tests"}
    assert suite_of(summary, "broken")["admitted"]["validity"]["value"] is None
    assert summary["tasks"] == {
        "audited": 3, "measured": 2, "with_overlap": 1, "lost_end_states": 0,
    }  # fmt: skip


def test_every_candidate_has_a_verdict_and_a_stored_one_that_cannot_be_is_noticed(audited):
    summary = audited[0]
    first, second, shout = sorted(summary["pools"], key=lambda pool: (pool["task"], pool["seed"]))
    assert [one["passed"] for one in first["candidates"]] == [True, False, False, False, False, True]
    assert (first["disagrees"], second["disagrees"], shout["disagrees"]) == (False, True, False)
    assert summary["disagreeing_verdicts"] == 1


def test_an_audit_that_was_broken_off_goes_on_and_one_that_is_repeated_opens_no_sandbox(audited, swept, opened, hc_ray):
    before = len(opened)
    assert {**audited[0], "seconds": 0} == {**hc_ray("audit", swept, "--json"), "seconds": 0}
    assert len(opened) == before


def test_candidates_are_graded_without_their_self_tests_too(audited, swept):
    outcome = asyncio.run(auditing.measured(auditing.prepare(str(swept), self_tests=False)))
    assert outcome.verdicts == audited[1].verdicts and not any(one.suites for one in outcome.evidence)


def test_hidden_tests_and_reference_stay_under_the_sealed_root(audited, swept):
    told = b"\n".join(path.read_bytes() for path in swept.rglob("*") if path.is_file())
    for secret in (b"test_adds", b"negative", b"tr a-z A-Z", b"hc-ray-canary"):
        assert secret not in told
    kept = [*(sealed_folder(swept.parent / "tasks") / "audit").glob("*.json")]
    assert any(b"test_adds" in path.read_bytes() for path in kept)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


def test_the_report_shows_a_stored_audit_and_says_not_measured_without_one(audited, swept, hc_ray):
    shown = hc_ray("report", swept)
    assert "0.50" in shown and "fault detection" in shown
    page = (swept / "report.html").read_text()
    assert "Self-test quality" in page and "run hc-ray audit" not in page
    (swept / "audit.json").rename(swept / "aside")
    try:
        assert report.summarise(SweepStore(str(swept)))["suite_quality"] is None
        assert "run hc-ray audit" in hc_ray("report", swept)
    finally:
        (swept / "aside").rename(swept / "audit.json")


def test_a_holdout_is_audited_only_by_name_counted_and_told_in_sums_alone(home, tmp_path):
    dataset = tmp_path / "tasks"
    for name in ("add", "shout", "broken"):
        # No look at these tasks opens a sandbox: none has a reference.
        make_task(dataset, name, instruction=f"Write {name}.py.\n", solution={})
    (dataset / "add" / "solution").mkdir(exist_ok=True)
    write_sweep(tmp_path / "out", dataset, split="holdout")
    with pytest.raises(ConfigError, match="--split holdout"):
        auditing.prepare(str(tmp_path / "out"))
    assert verifiers.count_looks(dataset) == 0
    summary, _ = auditing.run(auditing.prepare(str(tmp_path / "out"), split="holdout"))
    assert verifiers.count_looks(dataset) == 1 and not {"suites", "pools", "unmeasured"} & summary.keys()
    assert not (sealed_folder(dataset) / "audit").exists()


def test_a_task_that_changed_since_the_sweep_is_left_out_and_told(home, tmp_path, capsys):
    for name in ("add", "shout", "broken"):
        make_task(tmp_path / "tasks", name, instruction=f"Write {name}.py.\n", solution={})
    write_sweep(tmp_path / "out", tmp_path / "tasks")
    (tmp_path / "tasks/add/instruction.md").write_text("Write something else.\n")
    run(["audit", str(tmp_path / "out")])
    told = capsys.readouterr().out
    assert "1 task of this sweep changed since, or went: left out of the audit." in told
    assert "The hidden tests changed" not in told


def test_a_sweep_that_runs_or_is_none_is_not_audited(swept, tmp_path):
    with pytest.raises(OutputError):
        auditing.prepare(str(tmp_path / "nothing"))
    lease = Held(epoch=1, owner="x", pid=1, host="elsewhere", machine="another", renewed_at=time.time())
    (swept / LEASE).write_text(lease.model_dump_json())
    with pytest.raises(OutputError, match="still running"):
        auditing.prepare(str(swept))
    (swept / LEASE).unlink()
