"""MLflow: experiment = dataset x model, parent run = sweep, child run = (agent, config, split).

Everything is rebuilt from a report summary: exporting a sweep again finds its runs by tag and brings them up to date;
nothing is doubled. What was not measured is not logged. MLflow is imported on first use, its telemetry off."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from hc_ray.domain.errors import StoreError
from hc_ray.domain.value import canonical_json, digest_of

PARAM_LIMIT = 6000
"""Characters that MLflow keeps of a parameter; it cuts longer ones without a word."""
TAG_LIMIT = 8000
BATCH = 100
"""Parameters or tags a request may carry."""
TRIALS = "trials.json"

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet"}
"""Set before MLflow is imported, here and in the UI's process."""


class MlflowTracker:
    """``ports.Tracker`` on a tracking URI: ``sqlite:///path`` or a server's ``http://`` address."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._sqlite = Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None

    def prepare(self) -> None:
        """Import MLflow and make sure that the database has its tables, which takes seconds: whoever has time to spare
        does it before the export."""
        os.environ.update(QUIET)
        import logging

        from mlflow import MlflowClient

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        with self._alone():
            MlflowClient(tracking_uri=self._uri)

    def export(self, sweep: Mapping[str, Any], *, page: str, note: str, status: str = "FINISHED") -> str:
        """Write a sweep's runs from its report summary; answers the parent run's id. ``page``: the report as HTML,
        ``note``: what it lets one say, ``status``: how the sweep stands, in MLflow's words. Metrics are written at the
        step of the trials done. Raises ``StoreError``."""
        os.environ.update(QUIET)
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        try:
            self.prepare()
            with self._alone():
                return self._export(MlflowClient(tracking_uri=self._uri), sweep, page, note, status)
        except (MlflowException, OSError) as error:
            raise StoreError(f"MLflow at {self._uri}: {str(error).splitlines()[0]}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time on SQLite: two first uses at once would both create its schema."""
        if self._sqlite is None:
            yield
            return
        self._sqlite.parent.mkdir(parents=True, exist_ok=True)
        with self._sqlite.with_name(self._sqlite.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _export(self, client: Any, sweep: Mapping[str, Any], page: str, note: str, status: str) -> str:
        about = sweep["sweep"]
        experiment = self._experiment(client, experiment_name(about))
        known = self._known_runs(client, experiment, about["id"])
        started, ended = _span(sweep["trials"])
        parent = known.get("sweep") or client.create_run(experiment, start_time=started, run_name=_sweep_name(about))
        parent_id = str(parent.info.run_id)
        tags = {
            "hc_ray.sweep_id": about["id"],
            "hc_ray.part": "sweep",
            "git_sha": about["git_sha"],
            "public_digests": digest_of(about["task_digests"]),
            "dataset": about["dataset"],
            "split": about["split"],
            "mlflow.source.git.commit": about["git_sha"],
            "mlflow.note.content": note or None,
            # What `log_table` sets: the UI then shows the file as a table. Written whole, so that it never doubles.
            "mlflow.loggedArtifacts": json.dumps([{"path": TRIALS, "type": "table"}]),
        }
        totals = {
            "trials": about["trials"],
            "unscored": sum(config["unscored"] for config in sweep["configs"]),
            "bits": sweep["bits"],
        }
        self._bring(client, parent, params_of(about["config"]), tags, totals, about["trials"])
        client.log_text(parent_id, page, "report.html")
        client.log_text(parent_id, json.dumps(sweep, indent=1), "report.json")
        client.log_text(parent_id, json.dumps(about["config"], indent=1), "config.json")
        client.log_text(parent_id, json.dumps(_as_table(sweep["trials"])), TRIALS)
        for config in sweep["configs"]:
            child = self._child(client, experiment, parent_id, known, about, config, tags, started)
            _set_status(client, child, status, ended)
        _set_status(client, parent_id, status, ended)
        return parent_id

    def _experiment(self, client: Any, name: str) -> str:
        """The experiment of that name, made with its artefacts beside the SQLite file, or brought back from the bin."""
        found = client.get_experiment_by_name(name)
        if found is None:
            place = None
            if self._sqlite is not None:
                folder = self._sqlite.absolute().parent / "mlartifacts"
                place = (folder / digest_of(name)[:12]).as_uri()
            return str(client.create_experiment(name, artifact_location=place))
        if found.lifecycle_stage == "deleted":
            client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _known_runs(self, client: Any, experiment: str, sweep_id: str) -> dict[str, Any]:
        """The runs that an earlier export of this sweep made: part → run."""
        runs: dict[str, Any] = {}
        token = None
        while True:
            page = client.search_runs(
                [experiment], f"tags.`hc_ray.sweep_id` = '{sweep_id}'", max_results=1000, page_token=token
            )
            runs |= {run.data.tags.get("hc_ray.part"): run for run in page}
            token = page.token
            if not token:
                return runs

    def _child(
        self,
        client: Any,
        experiment: str,
        parent: str,
        known: Mapping[str, Any],
        about: Mapping[str, Any],
        config: Mapping[str, Any],
        tags: Mapping[str, Any],
        started: int,
    ) -> str:
        part = f"{config['agent']}/{config['config_hash']}/{config['split']}"
        name = f"{config['agent']} {config['split']} {config['config'] or config['config_hash'][:8]}".rstrip()
        settings = {one["hash"]: one["settings"] for one in about["configs"]}.get(config["config_hash"], {})
        run = known.get(part) or client.create_run(experiment, start_time=started, run_name=name)
        own = {
            **{key: tags[key] for key in ("hc_ray.sweep_id", "git_sha", "public_digests", "dataset")},
            "mlflow.source.git.commit": tags["git_sha"],
            "mlflow.parentRunId": parent,
            "hc_ray.part": part,
            "agent": config["agent"],
            "split": config["split"],
            "config": config["config"] or None,
            "config_hash": config["config_hash"],
            "sandbox": config["sandbox"],
            "grading": config["grading"],
        }
        params = {"agent": config["agent"], "config_hash": config["config_hash"]}
        params |= params_of(about["config"]) | params_of(settings)
        self._bring(client, run, params, own, metrics_of(config), config["trials"])
        return str(run.info.run_id)

    def _bring(
        self,
        client: Any,
        run: Any,
        params: Mapping[str, str],
        tags: Mapping[str, Any],
        metrics: Mapping[str, float | None],
        step: int,
    ) -> None:
        """Bring a run up to date: parameters are written once, a metric only where its value is new."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        before = run.data
        new_params = [Param(name, value) for name, value in params.items() if name not in before.params]
        new_tags = [RunTag(name, _text(value)[:TAG_LIMIT]) for name, value in tags.items() if value is not None]
        new_metrics = [
            Metric(name, float(value), now, step)
            for name, value in metrics.items()
            if value is not None and before.metrics.get(name) != float(value)
        ]
        client.log_batch(run.info.run_id, metrics=new_metrics)
        for first in range(0, max(len(new_params), len(new_tags)), BATCH):
            part = slice(first, first + BATCH)
            client.log_batch(run.info.run_id, params=new_params[part], tags=new_tags[part])


def _set_status(client: Any, run_id: str, status: str, ended: int) -> None:
    if status == "RUNNING":
        client.update_run(run_id, status=status)
    else:
        client.set_terminated(run_id, status, ended)


def experiment_name(about: Mapping[str, Any]) -> str:
    """``dataset x model``; a path counts by its last part, so that a moved checkout goes on in the same experiment."""
    dataset = Path(str(about["dataset"] or "unknown")).name
    return f"{dataset} x {Path(str(about['model'] or 'unknown')).name}"


def metrics_of(config: Mapping[str, Any]) -> dict[str, float | None]:
    """A report's config as MLflow metrics; None is left out."""
    return {
        "blind_pass_rate": config["blind_pass"]["value"],
        "blind_pass_rate_low": config["blind_pass"]["low"],
        "blind_pass_rate_high": config["blind_pass"]["high"],
        "self_pass_rate": config["self_pass"]["value"],
        "self_pass_rate_low": config["self_pass"]["low"],
        "self_pass_rate_high": config["self_pass"]["high"],
        "blind_pass_rate_unscored_as_fail": config["blind_pass_unscored_as_fail"]["value"],
        "selection_efficiency": config["selection_efficiency"],
        **{
            name: config[name]
            for name in (
                "score",
                "turns",
                "tokens",
                "tokens_per_trial",
                "engine_seconds",
                "seconds",
                "trials",
                "unscored",
            )
        },
    }


def params_of(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The resolved config, one parameter a leaf (``solver.samples``). What MLflow would cut says that it was cut."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= params_of(value, f"{prefix}{key}.")
            continue
        text = _text(value)
        if len(text) > PARAM_LIMIT:
            note = f" (cut: {len(text)} characters, SHA-256 {digest_of(text)}; whole in config.json)"
            text = text[: PARAM_LIMIT - len(note)] + note
        flat[f"{prefix}{key}"] = text
    return flat


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _as_table(rows: Any) -> dict[str, Any]:
    """MLflow's form of a logged table."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return {"columns": columns, "data": [[row.get(name) for name in columns] for row in rows]}


def _sweep_name(about: Mapping[str, Any]) -> str:
    return f"sweep {about['started_at'] or about['id']}"[:60]


def _span(rows: Any) -> tuple[int, int]:
    """First start and last end of the trials, in milliseconds; now where there are none."""
    now = int(time.time() * 1000)
    times = [
        int(datetime.fromisoformat(row[name]).timestamp() * 1000)
        for row in rows
        for name in ("started_at", "finished_at")
    ]
    return (min(times), max(times)) if times else (now, now)
