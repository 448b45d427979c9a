"""Climbs by sweeps with played actors: a trial passes where its config has a hint that the meta-reasoner knows of."""

import signal
from contextlib import contextmanager

import pytest

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.events import TrialComplete
from hc_ray_actors.jobs import climb
from tests.fakes import crew
from tests.fakes.answers import HINT
from tests.fakes.sandbox_home import data_home
from tests.fakes.tasks import make_tasks

TASKS = 6


class World(crew.Stage):
    def __init__(self):
        super().__init__()
        self.solvers = {}
        self.own = {"Trials": _Trials, "Verifiers": _Verifiers}


class _Trials(crew._Trials):
    stage: World

    async def start(self, key, task):
        self.stage.solvers[key.name] = key.solver
        return await super().start(key, task)


class _Verifiers(crew._Verifiers):
    stage: World

    async def grade(self, task, handed_in, keep_output, reference):
        return crew.verdict(self.stage.solvers[handed_in.trial].hint == HINT)


class Watch:
    """Interrupts, as Ctrl-C does, when ``last`` trials have ended; counts those that ended."""

    def __init__(self, last=-1):
        self.last, self.ended = last, 0
        self.purposes, self.waited = [], []
        self.end = lambda: signal.raise_signal(signal.SIGINT)

    @contextmanager
    def __call__(self, trials, purpose):
        self.purposes.append(purpose)
        yield self

    @contextmanager
    def waiting(self, what):
        self.waited.append(what)
        yield

    def emit(self, event):
        if isinstance(event, TrialComplete):
            self.ended += 1
            if self.ended == self.last:
                self.end()


@pytest.fixture
def given(tmp_path):
    make_tasks(tmp_path / "set", TASKS)
    with data_home():
        yield {
            "dataset": str(tmp_path / "set"), "sandbox": "bwrap", "out": str(tmp_path / "out"), "mlflow_uri": "none",
            "engine": {"kind": "scripted", "script": "tests.fakes.answers:has_a_hint"},
            "climb": {"generations": 1, "looks": [1], "confirm": [1]},
        }  # fmt: skip


def climbed(given, watch, *, resume=False, world=None):
    plan = climb.prepare(SweepConfig.model_validate(given), resume=resume)
    return climb.run(plan, watch=watch, waiting=watch.waiting, tell=lambda record: None, note=pytest.fail,
                     cluster=world or World())  # fmt: skip
