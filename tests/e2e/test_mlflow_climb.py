import json
import os
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hc_ray.blind.sealing.canaries import planted_tokens
from hc_ray.blind.sealing.vault import seal
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import LeakError
from hc_ray.reports.climb_report import is_climb
from hc_ray.stores.mlflow_story import Status, Story
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import tracker
from hc_ray_actors.jobs import climb
from hc_ray_actors.jobs import climb_story as stories
from hc_ray_actors.jobs.climb_story import climb_story
from hc_ray_actors.jobs.climb_story import told as telling
from tests.fakes.answers import HINT
from tests.fakes.climbs import TASKS, Watch, World, climbed, given

__all__ = ["given"]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


class Tracker(tracker.Tracker):
    niceness: ClassVar[set[int]] = set()

    async def tell(self, story: Story, status: Status) -> str:
        self.niceness.add(os.nice(0))
        return await super().tell(story, status)


class Tracked(World):
    """With a tracker that tells MLflow."""

    def spawn(self, cls: type, *args: Any, **where: Any) -> Any:
        return Tracker(*args) if cls is tracker.Tracker else super().spawn(cls, *args, **where)


def told(database: Path) -> dict[str, Any]:
    """What stands in a store, by part of the climb, without ids and times."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{database}")
    experiment = client.get_experiment_by_name("set x tests.fakes.answers:has_a_hint")
    found = {}
    for run in client.search_runs([experiment.experiment_id]):
        traces = client.search_traces([experiment.experiment_id],
                                      filter_string=f"metadata.`mlflow.sourceRun` = '{run.info.run_id}'")  # fmt: skip
        found[run.data.tags["hc_ray.part"]] = {
            "params": run.data.params,
            "tags": {name: text for name, text in run.data.tags.items() if name != "mlflow.parentRunId"},
            "metrics": {name: [(one.value, one.step) for one in client.get_metric_history(run.info.run_id, name)]
                        for name in run.data.metrics},
            "artefacts": [item.path for item in client.list_artifacts(run.info.run_id)],
            "status": run.info.status,
            "traces": sorted(trace.info.request_preview for trace in traces),
        }  # fmt: skip
    prompts = client.search_model_versions("tags.`mlflow.prompt.is_prompt` = 'true'")
    return {
        "runs": found,
        "prompts": sorted((one.name, one.tags["mlflow.prompt.text"]) for one in prompts),
    }


def test_a_climb_is_a_run_with_its_arms_below_it_and_an_export_tells_the_same_as_was_told_live(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "PATIENCE", 1000)  # told before each of its sweeps
    live, again = tmp_path / "live.db", tmp_path / "again.db"
    climbed(given | {"mlflow_uri": f"sqlite:///{live}"}, Watch(), world=Tracked())
    tracker.tell(f"sqlite:///{again}", given["out"], climb_story(given["out"]))
    assert Tracker.niceness == {os.nice(0)}, "only a process of its own has a lower priority"
    found = told(live)
    assert told(again) == found
    settings = Path(given["out"], "settings.json")
    sealed, whole = json.loads(settings.read_text())["identity"]["sealed_digest"], climb_story(given["out"])
    assert not [path for path in (live, *tmp_path.glob("mlartifacts/**/*"))
                if path.is_file() and sealed.encode() in path.read_bytes()]  # fmt: skip
    settings.write_text(settings.read_text().replace(sealed, "0" * 64))
    assert climb_story(given["out"]) == whole, "nothing that is told derives from hidden tests"
    runs = found["runs"]
    parent = runs.pop("climb")
    (best,) = (one for one in runs.values() if one["tags"]["champion"] == "yes")
    assert parent["metrics"]["incumbent/blind_pass_rate"] == [(0.0, 1), (1.0, 2)]
    assert {"champion.yaml", "climb.json", "changes.json"} <= set(parent["artefacts"])
    assert {one["tags"]["stage"] for one in runs.values()} == {"race", "confirm", "control"}
    assert best["tags"] | {"knob": "solver.hint", "after": HINT, "verdict": "accepted", "champion": "yes",
                           "stage": "confirm", "tuned on": f"{TASKS} dev tasks"} == best["tags"]  # fmt: skip
    assert best["metrics"]["blind_pass_rate"] == [(1.0, TASKS)] and best["params"]["solver.hint"] == HINT
    roles = {name.rpartition(".")[2] for name, text in found["prompts"] if HINT in text or "tester" in name}
    assert roles == {"solver", "tester"}, "a hint is a version of the solver's prompts"
    (meta,) = (one for one in found["prompts"] if one[0].endswith("has_a_hint.meta"))
    assert "Propose one change" in meta[1] and meta[0] in parent["tags"]["mlflow.linkedPrompts"]
    assert json.loads(best["tags"]["mlflow.linkedPrompts"])


def test_a_canary_stops_a_climb_before_it_is_written_and_before_it_is_told(given: dict[str, Any]) -> None:
    plan, out = climb.prepare(SweepConfig.model_validate(given)).sweep, Path(given["out"])
    seal(Path(plan.dataset), Path(plan.public_root), Path(plan.sealed_root))
    token = next(iter(planted_tokens(Path(plan.sealed_root))))
    with pytest.raises(LeakError, match=r"declared\.json"):
        climbed(given | {"solver": {"hint": token}}, Watch())
    assert not (out / "climb").exists()
    assert is_climb(SweepStore(str(out))), "what has not declared its terms is a climb to all"
    (out / "champion.yaml").write_text(token)
    uri = f"sqlite:///{out}/mlflow.db"
    with (
        pytest.raises(LeakError, match="the climb stops"),
        telling(uri, str(out), cluster=Tracked(), sealed_root=plan.sealed_root, note=pytest.fail) as more,
    ):
        more()
        pytest.fail("it went on")
    assert not (out / "mlflow.db").exists()
