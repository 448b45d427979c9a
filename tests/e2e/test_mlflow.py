import fcntl
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy

from hc_ray.cli import machine
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import EngineError, OutputError, PlatformError, StoreError
from hc_ray.machine.cleanup import remove_folder
from hc_ray.reports import report
from hc_ray.stores import mlflow_tracker
from hc_ray.stores.mlflow_sweep import sweep_story
from hc_ray.stores.mlflow_tracker import PARAM_LIMIT, MlflowTracker, params_of
from hc_ray.stores.sweep_directory import parquet
from hc_ray_actors.driver.results import COLUMNS, default_tracking_uri
from tests.fakes import sweepdir
from tests.fakes.processes import alive, family, ran, wait

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with an exported sweep, and its parent run's id. Creating MLflow's schema takes seconds: done once."""
    folder = tmp_path_factory.mktemp("mlflow")
    return folder, written(tracker_at(folder), sweepdir.demo_like())


def written(tracker: MlflowTracker, store: sweepdir.MemoryStore) -> str:
    summary = report.summarise(store)
    story = sweep_story(summary, page=report.html(summary), note="What it lets one say.", store=store)
    return tracker.tell(story, store=store)


def tracker_at(folder: Path) -> MlflowTracker:
    return MlflowTracker(f"sqlite:///{folder / 'mlflow.db'}")


def client_of(folder: Path) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")


def test_a_user_without_a_home_can_export(tmp_path):
    code = "import os; os.getuid = lambda: 54321\n"
    code += f"from hc_ray.stores import mlflow_tracker as it; it.MlflowTracker('sqlite:///{tmp_path}/m.db').prepare()"
    without = {name: value for name, value in os.environ.items() if name != "HOME"} | {"HC_RAY_HOME": str(tmp_path)}
    done = ran(sys.executable, "-c", code, cwd=tmp_path, env=without)
    assert done.returncode == 0 and (tmp_path / "m.db").is_file(), done.stderr[-2000:]


@pytest.mark.parametrize(("answers", "says"), [("500", "too many 500 error responses"), ("late", "timed out"),
                                                ("nobody", "Connection refused")])  # fmt: skip
def test_of_a_tracking_server_that_fails_the_reason_is_told_within_the_time_that_is_set(monkeypatch, answers, says):
    class Sick(BaseHTTPRequestHandler):
        def do_GET(self):
            if answers == "500":
                self.send_error(500)
            over.wait(60)

    for name, value in {"MAX_RETRIES": "1", "TIMEOUT": "1", "BACKOFF_JITTER": "0", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    over = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Sick) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        if answers == "nobody":
            server.socket.close()
        with pytest.raises(StoreError, match=rf"MLflow at http://127\.0\.0\.1:.* failed: .*{says}$"):
            written(MlflowTracker(f"http://127.0.0.1:{server.server_port}"), sweepdir.demo_like())
        over.set()
        server.shutdown()


def runs_of(folder: Path, sweep_id: str = "sweep-1") -> dict[str, Any]:
    client = client_of(folder)
    experiment = client.get_experiment_by_name("starter x smollm2-135m-instruct")
    runs = client.search_runs([experiment.experiment_id], f"tags.`hc_ray.sweep_id` = '{sweep_id}'")
    return {run.data.tags["hc_ray.part"].split("/")[0]: run for run in runs}


def table_of(folder: Path, run: str, name: str = "trials.json") -> dict[str, Any]:
    """A logged table, as it lies below the store's folder."""
    (file,) = (folder / "mlartifacts").rglob(f"{run}/artifacts/{name}")
    return json.loads(file.read_text())


def test_a_sweep_is_a_parent_run_with_a_child_per_agent_which_has_the_numbers_of_the_report(exported):
    folder, parent = exported
    runs = runs_of(folder)
    assert set(runs) == {"sweep", "raw", "best_of_n", "hc"} and runs["sweep"].info.run_id == parent
    assert all(run.info.status == "FINISHED" for run in runs.values())
    began = {name: run.info.start_time for name, run in runs.items()}
    assert began["hc"] - began["sweep"] == 30_000, "a sweep began when it was started, before its first trial"
    for config in report.summarise(sweepdir.demo_like())["configs"]:
        tags, metrics = runs[config["agent"]].data.tags, runs[config["agent"]].data.metrics
        assert tags["mlflow.parentRunId"] == parent
        assert metrics["blind_pass_rate"] == config["blind_pass"]["value"]
        assert metrics["blind_pass_rate_low"] == config["blind_pass"]["low"]
        assert metrics["tokens"] == config["tokens"] and metrics["unscored"] == config["unscored"]
        assert ("self_pass_rate" in metrics) == (config["agent"] == "hc"), "what was not measured is absent"


def test_a_store_is_a_copy_of_the_tables_of_the_first_and_what_broke_the_making_of_one_costs_nothing_but_time(
    tmp_path, monkeypatch
):
    def breaks_off(tracking_uri):
        with closing(sqlite3.connect(tracking_uri.removeprefix("sqlite:///"))) as half:
            half.execute("CREATE TABLE _alembic_tmp_latest_metrics (x)")
        raise OSError("no space left on device")

    def made(name):
        tracker_at(tmp_path / name).prepare()
        with closing(sqlite3.connect(tmp_path / name / "mlflow.db")) as store:
            (created,) = store.execute("SELECT creation_time FROM experiments").fetchone()
            return sorted(store.execute("SELECT name FROM sqlite_master")), created

    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    with monkeypatch.context() as full, pytest.raises(OSError, match="no space"):
        full.setattr("mlflow.MlflowClient", breaks_off)
        tracker_at(tmp_path / "first").prepare()
    assert [path.name for path in (tmp_path / "first").glob("mlflow.db*")] == ["mlflow.db.lock"]
    tables, created = made("first")
    assert client_of(tmp_path / "first").search_experiments() and made("copy") == (tables, created)
    (kept,) = tmp_path.glob("mlflow-*.db")
    kept.write_bytes(b"damaged")
    (tmp_path / "first" / "mlflow.db").unlink()
    again, later = made("first")
    assert again == tables and later > created, "made again in the same process"


def test_params_hold_the_resolved_config_and_data_set_and_tags_say_where_it_comes_from(exported):
    run, config = runs_of(exported[0])["hc"], SweepConfig()
    (dataset,), hc = run.inputs.dataset_inputs, run.data
    assert (dataset.dataset.name, hc.tags["mlflow.source.name"]) == ("starter", "hc-ray sweep")
    told = [hc.params[name] for name in ("solver.selector", "budget.tokens", "solver.testgen.rounds")]
    assert told == [config.solver.selector, str(config.budget.tokens), str(config.solver.testgen.rounds)]
    assert hc.tags["git_sha"] == "abc123" and hc.tags["split"] == "dev" and hc.tags["agent"] == "hc"
    assert len(hc.tags["public_digests"]) == 64


def test_report_and_trials_are_artefacts_of_the_parent_and_a_cut_parameter_says_so(exported):
    folder, parent = exported
    client = client_of(folder)
    paths = {"report.html", "report.json", "config.json", "trials.json"}
    assert {item.path for item in client.list_artifacts(parent)} == paths
    table = table_of(folder, parent)
    assert len(table["data"]) == 24 and "passed" in table["columns"]
    long = params_of({"a": {"b": "x" * 7000}, "c": None})
    assert len(long["a.b"]) == PARAM_LIMIT and "cut: 7000 characters" in long["a.b"] and long["c"] == "null"


def test_exporting_again_updates_the_same_runs_and_doubles_nothing(exported):
    folder, elsewhere = exported
    tracker, client = tracker_at(folder), client_of(folder)
    store = sweepdir.sweep(sweep_id="sweep-2")
    sweepdir.add_trials(store, "hc", [True, True, False, False])
    parent = written(tracker, store)
    assert parent != elsewhere
    first = runs_of(folder, "sweep-2")
    assert written(tracker, store) == parent
    again = runs_of(folder, "sweep-2")
    assert {part: run.info.run_id for part, run in again.items()} == {p: r.info.run_id for p, r in first.items()}
    assert len(client.get_metric_history(first["hc"].info.run_id, "blind_pass_rate")) == 1
    sweepdir.add_trial(store, "t04", "hc", True)
    written(tracker, store)
    again = runs_of(folder, "sweep-2")
    assert set(again) == {"sweep", "hc"} and again["hc"].data.metrics["blind_pass_rate"] == pytest.approx(3 / 5)
    assert len(table_of(folder, parent)["data"]) == 5


def test_a_store_that_another_process_holds_ends_the_export_in_words_and_the_next_one_catches_up(exported, monkeypatch):
    folder, parent = exported
    text = sqlalchemy.sql.text
    monkeypatch.setattr(
        sqlalchemy.sql, "text", lambda said: text(said.replace("busy_timeout = 20000", "busy_timeout = 9"))
    )
    monkeypatch.setattr(mlflow_tracker, "PATIENCE", 0.3)
    with (folder / "mlflow.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"mlflow\.db: in use by another process"):
            written(tracker_at(folder), sweepdir.demo_like())
    with closing(sqlite3.connect(folder / "mlflow.db", isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match=r"database is locked$"):
            written(tracker_at(folder), sweepdir.demo_like())
    assert written(tracker_at(folder), sweepdir.demo_like()) == parent


def test_a_trial_is_a_trace_of_its_run_with_what_was_asked_and_when_and_candidates_are_a_table(exported):
    folder = exported[0]
    store = sweepdir.sweep(sweep_id="sweep-3")
    trial = sweepdir.add_told_trial(store)
    asked = {"step_id": 1, "source": "user", "message": "PROMPT"}
    metrics = {"prompt_tokens": 5, "completion_tokens": 7, "extra": {"seed": 1, "temperature": 0.5}}
    answer = {"step_id": 2, "source": "agent", "message": "ANSWER", "metrics": metrics}
    search = {"trajectory_id": "c2.0", "extra": {"purpose": "candidate"}, "steps": [asked, answer]}
    steps = [{"source": "user", "message": "Write it."}, {"source": "agent", "message": "submitted c2.0"}]
    told = {"steps": steps, "subagent_trajectories": [search]}
    store.write(f"trials/{trial}/agent/trajectory.json", json.dumps(told).encode())
    began = datetime.fromisoformat("2026-11-21T10:00:00+00:00").timestamp()
    rounds = [{"trial": trial, "at": began + 10 * n, "type": "action", "name": "round", "detail": {"number": n}}
              for n in (1, 2)]  # fmt: skip
    store.write("events/0.jsonl", "\n".join([*map(json.dumps, rounds), '{"type": "action", "na']).encode())
    row = dict.fromkeys(COLUMNS["candidates"]) | {"trial": trial, "id": "c2.0", "temperature": 0.5}
    store.write("tables/candidates.parquet", parquet([row]))
    for _ in range(2):
        parent = written(tracker_at(folder), store)
    client, run = client_of(folder), runs_of(folder, "sweep-3")["hc"]
    (trace,) = client.search_traces([run.info.experiment_id],
                                    filter_string=f"metadata.`mlflow.sourceRun` = '{run.info.run_id}'")  # fmt: skip
    trial_span, candidate, request = trace.data.spans
    assert trace.info.tags["passed"] == "true" and trial_span.outputs == "submitted c2.0"
    assert [(one.start_time_ns / 1e9 - began, one.end_time_ns / 1e9 - began) for one in (trial_span, request)] == [
        (0, 30), (10, 20),
    ]  # fmt: skip
    assert request.parent_id == candidate.span_id and request.attributes["temperature"] == 0.5
    assert request.inputs["messages"] == [{"role": "user", "content": "PROMPT"}]
    table = table_of(folder, run.info.run_id, "candidates.json")
    assert dict(zip(table["columns"], *table["data"], strict=True))["task"] == "double"
    assert parent == run.data.tags["mlflow.parentRunId"]


def test_an_answer_that_nests_without_end_costs_a_trial_its_spans_and_the_sweep_nothing(exported):
    store = sweepdir.sweep(sweep_id="sweep-4")
    trial = sweepdir.add_told_trial(store)
    steps = [{"source": "user", "message": "Write it."}, {"source": "agent", "message": "[" * 100_000}]
    store.write(f"trials/{trial}/agent/trajectory.json", json.dumps({"steps": steps}).encode())
    written(tracker_at(exported[0]), store)
    assert runs_of(exported[0], "sweep-4")["hc"].info.status == "FINISHED"


def test_a_sweep_that_is_not_on_this_disk_is_told_below_runs_where_the_ui_looks(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    shutil.copy(exported[0] / "mlflow.db", "runs")  # with its tables: making them takes seconds
    store = sweepdir.sweep(sweep_id="far")
    sweepdir.add_trials(store, "hc", [True, False])
    out = store.save(tmp_path / "bucket").as_uri()
    assert machine._store_of(out) == default_tracking_uri(out) == tracker_at(tmp_path / "runs")._uri
    machine.export_mlflow(out)
    assert runs_of(tmp_path / "runs", "far")["hc"].data.metrics["blind_pass_rate"] == 0.5


def test_the_ui_opens_the_store_that_a_sweep_names_and_leaves_a_server_to_the_browser(tmp_path):
    (tmp_path / "own.db").touch()
    uris = (f"sqlite:///{tmp_path / 'own.db'}", "http://tracking:5000")
    own, far = (str(sweepdir.sweep(SweepConfig(mlflow_uri=uri)).save(tmp_path / uri[:4])) for uri in uris)
    assert machine._store_of(own) == uris[0]
    with pytest.raises(OutputError, match="http://tracking:5000; open that address"):
        machine._store_of(far)


def test_each_ui_has_a_log_of_its_own_which_stays_where_it_did_not_come_up(tmp_path, monkeypatch):
    logs = []

    def server(command, *, log_path, **settings):
        """Says something and ends at once; the third does not come up."""

        def start():
            log_path.write_text("what it says")
            if len(logs) == 3:
                raise EngineError(f"it could not start (log: {log_path})")
            return "http://127.0.0.1:1/v1"

        logs.append(log_path)
        return SimpleNamespace(start=start, wait=log_path.read_text, stop=lambda: None, pid=1)

    monkeypatch.setattr("hc_ray.engines.server.ServerProcess", server)
    (tmp_path / "mlflow.db").touch()
    for _ in range(2):
        machine.ui(str(tmp_path), port=0)
    assert len(set(logs)) == 2 and not any(log.parent.exists() for log in logs)
    with pytest.raises(PlatformError, match="could not start") as told:
        machine.ui(str(tmp_path), port=0)
    assert str(logs[-1]) in str(told.value) and logs[-1].read_text() == "what it says"
    remove_folder(logs[-1].parent)


@pytest.mark.slow
def test_the_ui_answers_on_loopback_with_one_import_of_mlflow_and_leaves_no_process_behind(exported):
    command = [sys.executable, "-m", "hc_ray", "ui", str(exported[0]), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            told = json.loads("".join(itertools.takewhile(lambda line: line != "}\n", process.stdout)) + "}")
            url, mine = told["url"], family(told["pid"])
            assert url.startswith("http://127.0.0.1:") and len(mine) == 2, "a launcher and one server"
            body = json.dumps({"max_results": 5}).encode()
            request = urllib.request.Request(f"{url}/api/2.0/mlflow/experiments/search", body,
                                             {"Content-Type": "application/json"})  # fmt: skip
            with urllib.request.urlopen(request, timeout=20) as answer:
                names = {item["name"] for item in json.loads(answer.read())["experiments"]}
            assert "starter x smollm2-135m-instruct" in names
        finally:
            process.terminate()
    wait(lambda: not any(map(alive, mine)), 10, "the end of the server's processes")
