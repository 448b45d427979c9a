"""After its last trial a sweep says what it still does, to whoever shows it."""

from hc_ray_actors.driver import sweep
from tests.fakes.crew import Stage, Watcher, plan_of


class Display(Watcher):
    """A watcher that shows steps; what it was told, in order."""

    def __init__(self):
        super().__init__()
        self.told = []

    def emit(self, event):
        super().emit(event)
        self.told.append(self.events[-1].type)

    def doing(self, step):
        self.told.append(step)


def tracked(out, uri):
    plan = plan_of(out, tasks=1)
    return plan.model_copy(update={"config": plan.config.model_copy(update={"mlflow_uri": uri})})


class Own(Stage):
    """A cluster that the sweep has started."""

    closed = 0

    def close(self):
        self.closed += 1


def test_every_step_after_the_last_trial_is_told_in_its_order_and_none_that_is_not_taken(tmp_path, monkeypatch):
    display, quiet, own, given = Display(), Display(), Own(), Own()
    monkeypatch.setattr(sweep, "RayCluster", lambda **options: own)
    sweep.run(tracked(tmp_path / "out", "http://nowhere.invalid"), events=display)
    assert display.told[display.told.index("trial_complete") + 1 :] == [
        "closing sandboxes and engines", "writing the report and the tables", "scanning the results for hidden tests",
        "exporting to MLflow", "ending the processes of this sweep",
    ]  # fmt: skip
    sweep.run(tracked(tmp_path / "untracked", "none"), events=quiet, cluster=given)
    assert "writing the report and the tables" in quiet.told
    assert not {"exporting to MLflow", "ending the processes of this sweep"} & set(quiet.told)
    assert (own.closed, given.closed) == (1, 0), "a cluster that is given is not the sweep's to end"


def test_a_watcher_without_a_place_for_steps_sees_its_events_and_nothing_else(tmp_path):
    watcher = Watcher()
    assert sweep.run(plan_of(tmp_path / "out", tasks=1), events=watcher, cluster=Stage()).done == 1
    assert watcher.of("trial_complete")
