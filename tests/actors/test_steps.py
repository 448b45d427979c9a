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


def test_every_step_after_the_last_trial_is_told_in_its_order_and_none_that_is_not_taken(tmp_path):
    display, quiet = Display(), Display()
    sweep.run(tracked(tmp_path / "out", "http://nowhere.invalid"), events=display, cluster=Stage())
    assert display.told[display.told.index("trial_complete") + 1 :] == [
        "closing sandboxes and engines", "writing the report and the tables", "scanning the results for hidden tests",
        "exporting to MLflow", "ending the processes of this sweep",
    ]  # fmt: skip
    sweep.run(tracked(tmp_path / "untracked", "none"), events=quiet, cluster=Stage())
    assert "writing the report and the tables" in quiet.told and "exporting to MLflow" not in quiet.told
