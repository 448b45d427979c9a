"""MLflow's client without a store: it answers as an empty one would, and keeps what it is told."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any


class MlflowCalls:
    """``client`` stands in for ``mlflow.MlflowClient``; ``told`` holds (call, what was told) in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def client(self, tracking_uri: str) -> "_Client":
        Path(tracking_uri.removeprefix("sqlite:///")).touch()
        return _Client(self.told)


class _Client:
    def __init__(self, told: list[tuple[str, Any]]) -> None:
        self._told, self._runs = told, 0

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str, artifact_location: str | None = None) -> str:
        self._told.append(("create_experiment", {"name": name, "artifact_location": artifact_location}))
        return "1"

    def search_runs(self, *_: Any, **__: Any) -> list[Any]:
        return []

    def log_inputs(self, run: str, datasets: Any) -> None:
        self._told.append((f"log_inputs {run}", [one.to_dictionary() for one in datasets]))

    def search_model_versions(self, filter_string: str) -> list[Any]:
        return []

    def create_prompt(self, name: str, tags: Any) -> None:
        self._told.append(("create_prompt", {"name": name, "tags": tags}))

    def create_prompt_version(self, name: str, text: str, tags: Any) -> Any:
        self._told.append(("create_prompt_version", {"name": name, "text": text, "tags": dict(tags)}))
        return SimpleNamespace(version=1)

    def start_trace(self, info: Any) -> None:
        kept = {"tags": info.tags, "request": info.request_preview, "response": info.response_preview}
        self._told.append(("start_trace", {**kept, "start_time": info.request_time}))

    def log_spans(self, experiment: str, spans: Any) -> None:
        for span in spans:
            told = {"attributes": span.attributes, "start_time": span.start_time_ns, "end_time": span.end_time_ns}
            self._told.append((f"log_spans {span.name}", told))

    def create_run(self, experiment: str, start_time: int, run_name: str) -> Any:
        self._runs += 1
        self._told.append(("create_run", {"start_time": start_time, "run_name": run_name}))
        data = SimpleNamespace(params={}, metrics={}, tags={})
        return SimpleNamespace(info=SimpleNamespace(run_id=f"run{self._runs}"), data=data)

    def log_batch(self, run: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        told = {"metrics": metrics, "params": params, "tags": tags}
        self._told.append(
            (f"log_batch {run}", {what: {one.key: one.value for one in all_} for what, all_ in told.items()})
        )

    def log_text(self, run: str, text: str, name: str) -> None:
        self._told.append((f"log_text {run} {name}", text))

    def set_terminated(self, run: str, status: str, end_time: int) -> None:
        self._told.append((f"set_terminated {run}", {"status": status, "end_time": end_time}))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the fake of MLflow's client has no {name}: what it would be told could not be compared")
