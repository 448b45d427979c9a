import json
import os
import signal
import time

import pytest

from tests.fakes.processes import carrying, wait
from tests.fakes.sweeps import begun, hc_ray, results, told
from tests.fakes.tasks import make_tasks

pytestmark = pytest.mark.slow
SCRIPTED = ["--engine", "scripted", "--script", "tests.fakes.answers:wavers", "--sandbox", "bwrap"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of two tasks by every agent, run once for the tests that look at it."""
    root = tmp_path_factory.mktemp("swept")
    dataset, out = make_tasks(root / "tasks", 2), root / "out"
    agents = [word for agent in ("raw", "best_of_n", "hc", "nop") for word in ("-a", agent)]
    return dataset, out, told("sweep", "-p", dataset, "-o", out, *agents, *SCRIPTED, "--budget-tokens", 4000)


def rewards_of(out):
    """By agent."""
    found = {}
    for result in results(out).values():
        found.setdefault(result["agent_info"]["name"], []).append(result["verifier_result"]["rewards"]["reward"])
    return found


def test_every_task_and_agent_has_one_committed_trial_that_starts_and_completes_in_the_journal(swept):
    _, out, _ = swept
    ran = sorted((r["task_name"], r["agent_info"]["name"]) for r in results(out).values())
    assert ran == sorted((f"add{n}", agent) for n in range(2) for agent in ("raw", "best_of_n", "hc", "nop"))
    events = [json.loads(line) for path in sorted(out.glob("events/*.jsonl")) for line in path.read_text().splitlines()]
    names = set(results(out))
    for kind in ("trial_start", "verdict", "trial_complete"):
        assert {event["trial"] for event in events if event["type"] == kind} == names
    used = set().union(*(event["used"] for event in events if event["type"] == "processor_use"))
    assert used >= {"driver", "actor Sandboxes", "actor Trials"}, "the time that its own processes took"


def test_verdicts_are_blind_nop_never_passes_and_the_search_does_where_two_samples_in_three_are_right(swept):
    _, out, _ = swept
    assert all(result["exception_info"] is None for result in results(out).values())
    rewards = rewards_of(out)
    assert rewards["nop"] == [0.0, 0.0] and rewards["hc"] == [1.0, 1.0]
    assert {one for found in rewards.values() for one in found} <= {0.0, 1.0}


def test_results_report_terminal_and_mlflow_hold_the_same_numbers(swept):
    from mlflow import MlflowClient

    _, out, printed = swept
    rates = {agent: sum(rewards) / len(rewards) for agent, rewards in rewards_of(out).items()}
    for report in (json.loads((out / "report.json").read_text()), printed["report"]):
        assert {config["agent"]: config["blind_pass"]["value"] for config in report["configs"]} == rates
    client = MlflowClient(f"sqlite:///{out.parent / 'mlflow.db'}")
    experiments = [one.experiment_id for one in client.search_experiments()]
    children = [run for run in client.search_runs(experiments) if "mlflow.parentRunId" in run.data.tags]
    assert {run.data.tags["agent"]: run.data.metrics["blind_pass_rate"] for run in children} == rates


def test_tables_hold_every_candidate_test_cell_and_turn_of_the_trials(swept):
    from hc_ray.stores.sweep_directory import read_parquet

    _, out, _ = swept
    tables = {path.stem: read_parquet(path.read_bytes()) for path in out.glob("tables/*.parquet")}
    assert set(tables) == {"trials", "candidates", "tests", "matrix", "turns"}
    trials = results(out)
    for name, result in trials.items():
        asked, metadata = result["agent_result"], result["agent_result"]["metadata"]
        rows = {table: [row for row in tables[table] if row["trial"] == name] for table in ("candidates", "turns")}
        assert len(rows["candidates"]) == len(metadata.get("candidates", []))
        if metadata["agent"] in ("raw", "best_of_n"):
            assert sum(row["completion_tokens"] for row in rows["turns"]) == asked["n_output_tokens"]
    assert {row["trial"] for row in tables["trials"]} == set(trials) and any(row["admitted"] for row in tables["tests"])
    assert {row["outcome"] for row in tables["matrix"]} >= {"pass"}


def test_a_finished_sweep_and_a_resume_with_another_config_are_refused_and_nothing_is_touched(swept, hc_ray):
    dataset, out, _ = swept
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    again = ["sweep", "-p", dataset, "-o", out, "-a", "raw", *SCRIPTED]
    assert "--resume" in hc_ray(*again, code=2)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before
    assert "agents" in hc_ray(*again, "--resume", code=2)


def test_a_regrade_comes_to_the_same_verdicts(swept, hc_ray):
    rows = hc_ray("regrade", swept[1], "--json")["trials"]
    assert len(rows) == 8 and all(row["before"] == row["after"] for row in rows)


def test_a_person_can_unseal_what_the_tests_printed_and_each_look_is_counted(swept, hc_ray):
    _, out, _ = swept
    trial = next(out / "trials" / name for name, r in results(out).items() if r["agent_info"]["name"] == "raw")
    reward = results(out)[trial.name]["verifier_result"]["rewards"]["reward"]
    looks = []
    for _ in range(2):
        seen = hc_ray("unseal", trial, "--json")
        looks.append(seen["looks"])
        assert seen["verdict"]["passed"] is (reward == 1.0) and seen["verdict"]["rewards"]["reward"] == reward
        assert "test_" in seen["output"] or "passed" in seen["output"], seen
    assert looks[1] == looks[0] + 1


def test_a_sweep_killed_in_the_middle_is_finished_by_a_resume_with_each_trial_once(tmp_path):
    dataset, out = make_tasks(tmp_path / "tasks", 2), tmp_path / "out"
    words = ["sweep", "-p", dataset, "-o", out, "-a", "raw", "-a", "hc", "-n", 1, *SCRIPTED, "--budget-tokens", 4000,
             "--mlflow-uri", "none"]  # fmt: skip
    marker, log = f"ended-{os.getpid()}-{time.time_ns()}", tmp_path / "log"
    for number, least, code in ((signal.SIGINT, 1, 130), (signal.SIGKILL, 2, -signal.SIGKILL)):
        process = begun(*words, log=log, HC_RAY_TEST_MARK=marker)
        wait(lambda least=least, one=process: len(results(out)) >= least or one.poll() is not None, 300, "some trials")
        process.send_signal(number)
        if number == signal.SIGINT:  # twice: a user in haste, or a wrapper that passes on what the terminal sent too
            time.sleep(0.1)
            process.send_signal(number)
        assert process.wait(60) == code, log.read_text()[-3000:]
        if number == signal.SIGINT:
            assert "Traceback" not in log.read_text() and (out / "report.json").is_file()
            wait(lambda: not carrying(marker), 10, "the end of all processes")
            words.append("--resume")
    before = {path: path.read_bytes() for path in out.glob("trials/*/result.json")}
    assert 2 <= len(before) < 4
    done = hc_ray(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(results(out)) == 4 and {path: path.read_bytes() for path in before} == before
