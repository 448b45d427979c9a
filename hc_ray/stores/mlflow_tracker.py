"""MLflow: an experiment is dataset × model, a parent run a sweep or a climb, its child runs what is compared in it.

Everything follows from a story: telling it again finds its runs by tag and brings them up to date; nothing is doubled.
What was not measured is not logged. MLflow is imported on first use, its telemetry off."""

import json
import os
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from hc_ray.domain.errors import StoreError
from hc_ray.domain.ports import Store
from hc_ray.domain.value import canonical_json, digest_of, flattened
from hc_ray.machine.paths import data_root
from hc_ray.machine.whole_files import lock
from hc_ray.stores.mlflow_environment import environment
from hc_ray.stores.mlflow_story import Point, Prompts, Run, Status, Story
from hc_ray.stores.mlflow_traces import Span, spans_of, turns_of

PARAM_LIMIT = 6000
"""The most characters of a parameter; MLflow silently cuts longer ones."""
TAG_LIMIT = 8000
BATCH = 100
"""The most parameters or tags per request."""
RUNS = 50_000
"""The most results in one answer of MLflow."""
PATIENCE = 30.0
"""Seconds that a writer waits for another writer of the same SQLite file."""
TRACES = 200
"""The most trajectories to export per child run."""


class MlflowTracker:
    """On a tracking URI: ``sqlite:///path`` or a server's ``http://`` address."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._sqlite = Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None

    def prepare(self) -> None:
        """Import MLflow and make sure that the database has its tables, which takes seconds: whoever has time to spare
        does it before the export. The tables are copied from the first database that this machine made."""
        os.environ.update(environment())
        import logging

        from mlflow import MlflowClient, __version__

        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.ERROR)
        first = data_root() / f"mlflow-{__version__}.db"
        with self._alone():
            new = self._sqlite if self._sqlite and not self._sqlite.exists() else None
            if new and first.exists():
                _copy(first, new)
            if new and not new.exists():  # of half its tables MLflow never makes a whole database
                with _whole(new) as part:
                    MlflowClient(tracking_uri=f"sqlite:///{part}")
            MlflowClient(tracking_uri=self._uri)
            if new and not first.exists():
                _copy(new, first)

    def tell(self, story: Story, status: Status = "FINISHED", *, store: Store | None = None) -> str:
        """Write a story's runs; answers the parent run's id. ``store``: where the trials' folders are that become
        traces. Raises ``StoreError``."""
        os.environ.update(environment())
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self.prepare()
            with self._alone():
                return self._tell(MlflowClient(tracking_uri=self._uri), story, status, store)
        except (MlflowException, SQLAlchemyError, OSError) as error:
            said, cut, _ = str(error).splitlines()[0].partition(" with exception ")  # what follows names sockets
            raise StoreError(f"MLflow at {self._uri}: {said}{f': {_first_of(error)}' if cut else ''}") from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time on SQLite: two first uses at once would both create its schema. Raises ``StoreError``
        where another one does not end."""
        if self._sqlite is None:
            yield
            return
        self._sqlite.parent.mkdir(parents=True, exist_ok=True)
        with self._sqlite.with_name(self._sqlite.name + ".lock").open("w") as file:
            try:
                lock(file, PATIENCE)
            except TimeoutError:
                raise StoreError(f"{self._sqlite}: in use by another process") from None
            yield

    def _tell(self, client: Any, story: Story, status: Status, store: Store | None) -> str:
        experiment = self._experiment(client, story.experiment)
        before = client.search_runs([experiment], f"tags.`hc_ray.sweep_id` = '{story.id}'", max_results=RUNS)
        known = {run.data.tags.get("hc_ray.part"): run for run in before}
        # Versions are numbered in the order in which they were used, whether told meanwhile or at once.
        runs = sorted((story.parent, *story.children), key=lambda run: run.started)
        used = {one.digest: one for run in runs for one in run.prompts}
        linked = {digest: _registered(client, experiment, story, one) for digest, one in used.items()}
        places = {row.get("where", "") for child in story.children for row in child.trials} if store else set()
        turns = {where: turns_of(store, where) for where in places if store}
        parent, ids = "", dict[str, int]()
        for run in (story.parent, *story.children):
            found = known.get(run.part) or client.create_run(experiment, start_time=run.started, run_name=run.name)
            run_id = str(found.info.run_id)
            parent = parent or run_id
            ids[run_id] = run.ended
            _bring(client, found, story, run, parent if run is not story.parent else None, linked)
            if store is not None:
                told = run.trials[:TRACES]
                traced = (spans_of(store, row, turns[row.get("where", "")].get(row["trial"], {})) for row in told)
                _trace(self._uri, experiment, run_id, [spans for spans in traced if spans])
        # The parent at last: whoever sees it ended sees all of it.
        for run_id, ended in reversed(ids.items()):
            if status == "RUNNING":
                client.update_run(run_id, status=status)
            else:
                client.set_terminated(run_id, status, ended)
        return parent

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


def _first_of(error: BaseException) -> BaseException:
    """What went wrong first: of a server that is gone MLflow's own words are a chain of pools and retries."""
    while earlier := error.__cause__ or error.__context__:
        error = earlier
    return error


def _copy(database: Path, to: Path) -> None:
    """Copy atomically; if there is no copy, MLflow creates the tables itself."""
    with suppress(OSError, sqlite3.Error), _whole(to) as part:
        source = f"{database.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(source, uri=True)) as here, closing(sqlite3.connect(part)) as there:
            here.backup(there)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A file beside, which takes the path's place if the block ends well, and else goes."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")  # MLflow remembers databases by their paths
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _bring(
    client: Any, found: Any, story: Story, run: Run, parent: str | None, linked: Mapping[str, Mapping[str, str]]
) -> None:
    """Bring a run up to date: parameters are written once, a metric or a tag only where its value is new."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

    run_id, before, now = found.info.run_id, found.data, int(time.time() * 1000)
    tables = [{"path": file, "type": "table"} for file in run.tables]
    tags = {
        **run.tags,
        "hc_ray.sweep_id": story.id,
        "hc_ray.part": run.part,
        "mlflow.parentRunId": parent,
        "mlflow.source.name": story.source,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": run.tags.get("git_sha"),
        "mlflow.linkedPrompts": [linked[one.digest] for one in run.prompts] or None,
        # What `log_table` sets: the UI then shows the files as tables. Written whole, so that they never double.
        "mlflow.loggedArtifacts": json.dumps(tables) if tables else None,
    }
    points = _news(client, run_id, run.points, before.metrics)
    client.log_batch(run_id, metrics=[Metric(one.name, one.value, now, one.step) for one in points])
    params = [Param(name, text) for name, text in params_of(run.config).items() if name not in before.params]
    told = {name: _text(value)[:TAG_LIMIT] for name, value in tags.items() if value is not None}
    new = [RunTag(name, text) for name, text in told.items() if before.tags.get(name) != text]
    for first in range(0, max(len(params), len(new)), BATCH):
        client.log_batch(run_id, params=params[first : first + BATCH], tags=new[first : first + BATCH])
    if story.digest:
        source = Dataset(Path(story.dataset).name, story.digest[:16], "local", json.dumps({"uri": story.dataset}))
        client.log_inputs(run_id, [DatasetInput(source, [InputTag("mlflow.data.context", story.split)])])
    for file, text in run.files.items():
        client.log_text(run_id, text, file)
    for file, rows in run.tables.items():
        client.log_text(run_id, json.dumps(_as_table(rows)), file)


def _news(client: Any, run_id: str, points: Sequence[Point], before: Mapping[str, float]) -> list[Point]:
    """Points that were not told before; of a metric with one point, that which is not the latest value."""
    curves = {name for name, count in Counter(one.name for one in points).items() if count > 1 and name in before}
    known = {(name, one.step, one.value) for name in curves for one in client.get_metric_history(run_id, name)}
    return [one for one in points
            if ((one.name, one.step, one.value) not in known if one.name in curves
                else before.get(one.name) != one.value)]  # fmt: skip


def _registered(client: Any, experiment: str, story: Story, one: Prompts) -> dict[str, str]:
    """A role's prompts in the registry: a version a digest, and its name and number."""
    name = f"{story.registered}.{one.role}"
    found = client.search_model_versions(f"name = '{name}' AND tags.`mlflow.prompt.is_prompt` = 'true'")
    for version in found:
        if version.tags.get("digest") == one.digest:
            return {"name": name, "version": str(version.version)}
    if not found:
        client.create_prompt(name, tags={"_mlflow_experiment_ids": f",{experiment},"})
    made = client.create_prompt_version(name, one.text, tags={"digest": one.digest})
    return {"name": name, "version": str(made.version)}


def _trace(uri: str, experiment: str, run_id: str, trials: Sequence[Sequence[Span]]) -> None:
    """A trace a trial, with ids that follow from the run's: told again, it is the same trace."""
    if not trials:
        return
    from mlflow.entities import Span as MlflowSpan
    from mlflow.entities import TraceInfo, TraceLocation, TraceState
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    for spans in trials:
        trial = spans[0]
        key = digest_of([run_id, trial.attributes["trial"]])[:32]
        tags = {"mlflow.traceName": trial.name, **{name: _text(value) for name, value in trial.attributes.items()}}
        client.start_trace(
            TraceInfo(
                trace_id=f"tr-{key}", trace_location=TraceLocation.from_experiment_id(experiment),
                request_time=trial.start // 1_000_000, execution_duration=(trial.end - trial.start) // 1_000_000,
                state=TraceState.ERROR if trial.attributes["passed"] is None else TraceState.OK,
                request_preview=str(trial.inputs)[:1000], response_preview=str(trial.outputs)[:1000],
                trace_metadata={"mlflow.sourceRun": run_id}, tags=tags,
            )
        )  # fmt: skip
        with suppress(RecursionError):  # MLflow reads what is JSON in an answer, however deeply that is nested
            client.log_spans(experiment, [MlflowSpan.from_dict(_as_span(key, span)) for span in spans])


def _as_span(key: str, span: Span) -> dict[str, Any]:
    """MLflow's own form of a stored span: each attribute is JSON."""
    attributes = {
        "mlflow.traceRequestId": f"tr-{key}", "mlflow.spanType": span.kind, "mlflow.spanInputs": span.inputs,
        "mlflow.spanOutputs": span.outputs, **span.attributes,
    }  # fmt: skip
    return {
        "trace_id": f"tr-{key}", "span_id": _span_id(span.id), "parent_span_id": _span_id(span.parent),
        "name": span.name, "start_time_unix_nano": span.start, "end_time_unix_nano": span.end, "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {name: json.dumps(value) for name, value in attributes.items() if value is not None},
    }  # fmt: skip


def _span_id(name: str | None) -> str | None:
    return digest_of(name)[:16] if name else None


def params_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The resolved config, one parameter a leaf (``solver.samples``). What MLflow would cut says that it was cut."""
    told = {key: _text(value) for key, value in flattened(config).items()}
    for key, text in told.items():
        if len(text) > PARAM_LIMIT:
            note = f" (cut: {len(text)} characters, SHA-256 {digest_of(text)}; whole in config.json)"
            told[key] = text[: PARAM_LIMIT - len(note)] + note
    return told


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _as_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """MLflow's form of a logged table."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return {"columns": columns, "data": [[row.get(name) for name in columns] for row in rows]}


def served() -> Any:
    """The web application of MLflow's server, on the store of ``MLFLOW_TRACKING_URI``, for uvicorn's one process:
    ``mlflow server`` makes two, which import MLflow one after the other. Raises what is wrong with the store."""
    from mlflow.server.constants import BACKEND_STORE_URI_ENV_VAR

    os.environ[BACKEND_STORE_URI_ENV_VAR] = os.environ["MLFLOW_TRACKING_URI"]
    from mlflow.server.fastapi_app import app
    from mlflow.server.handlers import initialize_backend_stores

    initialize_backend_stores()
    return app
