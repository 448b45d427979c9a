"""Signals that come while a sweep works, closes and writes its report, more than one; and the steps that it tells of
after its last trial."""

import asyncio
import os
import resource
import signal
import sys
import threading
import types
from contextlib import nullcontext

import pytest

from hc_ray.domain.errors import PlatformError, VerifierError
from hc_ray.machine.cleanup import ENDING, uninterrupted
from hc_ray_actors import ray_cluster
from hc_ray_actors.driver import signals, sweep
from tests.fakes.crew import Stage, failing, plan_of
from tests.fakes.listeners import Watcher


class Interrupting(Watcher):
    """Sends itself a signal when it is told for the ``nth`` time of a step, or an event of a type, that begins so; then
    others, each so many seconds after the one before. ``told`` is all that it was told, in order."""

    def __init__(self, when="", *later, number=signal.SIGINT, nth=1):
        super().__init__()
        self.when, self.later, self.number, self.nth, self.told = when, later, number, nth, []

    def emit(self, event):
        super().emit(event)
        self.doing(event.type)

    def doing(self, step):
        self.told.append(step)
        self.nth -= bool(self.when and step.startswith(self.when))
        if self.when and self.nth == 0:
            self.when, at = "", 0.0
            signal.raise_signal(self.number)
            for pause in self.later:
                at += pause
                timer = threading.Timer(at, signal.raise_signal, [self.number])
                timer.daemon = True
                timer.start()


def run(tmp_path, watcher, **scripts):
    return sweep.run(plan_of(tmp_path, tasks=2), events=watcher, cluster=Stage(**scripts))


async def _slow(name):
    await asyncio.sleep(0.3)


def test_one_that_comes_again_while_the_sweep_closes_breaks_nothing_off(tmp_path):
    ended = run(tmp_path, Interrupting("trial_start", 0.1, 0.1), stop=_slow, leaks=_slow)
    assert (ended.done, ended.interrupted, ended.signalled) == (0, True, True)
    assert (tmp_path / "report.json").is_file()


def test_one_that_comes_again_ends_a_closing_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "PATIENCE", 0.1)

    async def never(name):
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Interrupting("trial_start", 0.5), leaks=never)


def test_a_resume_that_is_interrupted_counts_no_trial_as_done_that_it_was_to_try_again(tmp_path):
    assert run(tmp_path, Watcher(), grade=failing(VerifierError("no sandbox"))).unscored == 1
    ended = run(tmp_path, Interrupting("trial_start"))
    assert (ended.done, ended.interrupted, ended.unscored) == (1, True, 1)
    ended = run(tmp_path, Watcher())
    assert (ended.done, ended.interrupted, ended.unscored) == (2, False, 0)


@pytest.mark.parametrize(("watcher", "signalled"), [
    (Interrupting("trial_complete", nth=2), True), (Interrupting("writing the report"), True), (Watcher(), False),
], ids=["one with the last trial's end", "one after the last trial", "none"])  # fmt: skip
def test_a_sweep_that_is_whole_says_whether_a_signal_came(tmp_path, watcher, signalled):
    ended = run(tmp_path, watcher, leaks=_slow)
    assert (ended.done, ended.interrupted, ended.signalled) == (2, False, signalled)


class Own(Stage):
    """A cluster that the sweep has started."""

    closed = 0

    def close(self):
        self.closed += 1


def test_every_step_after_the_last_trial_is_told_in_its_order_and_none_that_is_not_taken(tmp_path, monkeypatch):
    display, quiet, own, given = Interrupting(), Interrupting(), Own(), Own()
    monkeypatch.setattr(sweep, "RayCluster", lambda **options: own)
    sweep.run(plan_of(tmp_path / "out", 1, mlflow_uri="http://nowhere.invalid"), events=display)
    assert display.told[display.told.index("trial_complete") + 1 :] == [
        "processor_use", "closing sandboxes and engines", "writing the report and the tables",
        "scanning the results for hidden tests",
        "exporting to MLflow", "ending the processes of this sweep",
    ]  # fmt: skip
    sweep.run(plan_of(tmp_path / "untracked", 1), events=quiet, cluster=given)
    assert "writing the report and the tables" in quiet.told
    assert not {"exporting to MLflow", "ending the processes of this sweep"} & set(quiet.told)
    assert (own.closed, given.closed) == (1, 0), "a cluster that is given is not the sweep's to end"


def test_of_a_tracker_that_fails_the_first_line_is_told(tmp_path):
    def export(name):
        raise OSError("disk is full\n[SQL: CREATE TABLE ...]")

    plan = plan_of(tmp_path, 1, mlflow_uri="http://nowhere.invalid")
    ended = sweep.run(plan, events=Watcher(), cluster=Stage(export=export))
    assert [one for one in ended.problems if "MLflow" in one] == [
        f"not exported to MLflow: disk is full; to export: hc-ray export mlflow {tmp_path}"
    ]


@pytest.fixture
def own_handlers():
    """Handlers of this test's own, which raise ``KeyboardInterrupt`` as those of the command do."""

    def ends(*_):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, ends) for number in ENDING}
    yield ends
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_in_the_background_all_but_a_closed_terminal_are_heard_though_a_shell_has_them_ignored_as_it_has_afterwards(
    number, tmp_path, own_handlers
):
    signal.signal(number, signal.SIG_IGN)
    ended = run(tmp_path, Interrupting("trial_start", number=number))
    assert ended.interrupted == (number != signal.SIGHUP)
    before = dict.fromkeys(ENDING, own_handlers) | {number: signal.SIG_IGN}
    assert {one: signal.getsignal(one) for one in ENDING} == before


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_while_what_was_started_is_ended_breaks_nothing_off(number, own_handlers):
    with uninterrupted():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is own_handlers


def ray_that(init, tmp_path, monkeypatch, shutdown=lambda: None):
    """In the place of Ray, which starts so."""
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(init=init, shutdown=shutdown))
    monkeypatch.setenv("HC_RAY_HOME", str(tmp_path))
    monkeypatch.setattr(ray_cluster, "running_cluster", lambda address: None)
    monkeypatch.setattr(ray_cluster, "_environment", lambda: None)
    monkeypatch.setattr(ray_cluster, "laptop_slots", dict)
    monkeypatch.setattr(ray_cluster, "few_processes", nullcontext)
    monkeypatch.setattr(ray_cluster, "owned_folder", lambda kind, parent: tmp_path / "ray")


def test_beside_a_cluster_of_another_version_of_ray_it_is_told_how_to_do_without_it(tmp_path, monkeypatch):
    def init(**options):
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.53.0\n    Python: 3.11.2")

    ray_that(init, tmp_path, monkeypatch)
    with pytest.raises(PlatformError, match=r"with: Ray: 2.53.0 Python: 3.11.2; .* --address local$"):
        ray_cluster.RayCluster()


def test_where_ray_does_not_start_the_limits_of_the_shell_that_it_may_have_met_are_told(tmp_path, monkeypatch):
    def init(**options):
        raise ConnectionError("timed out")

    ray_that(init, tmp_path, monkeypatch)
    kinds = {resource.RLIMIT_NPROC: 40, resource.RLIMIT_AS: 1 << 30}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (kinds[kind], kinds[kind]))
    with pytest.raises(PlatformError, match=r"timed out; .*: ulimit -u 40, ulimit -v 1048576$"):
        ray_cluster.RayCluster()
    kinds |= {resource.RLIMIT_NPROC: 96_000, resource.RLIMIT_AS: resource.RLIM_INFINITY}
    with pytest.raises(PlatformError, match=r"its logs are in \S+$"):
        ray_cluster.RayCluster()
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ, "a cluster that is started later can be reached"


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_while_ray_starts_interrupts_and_ends_what_ray_has_started(
    tmp_path, monkeypatch, own_handlers, number
):
    ended = []

    def init(**options):
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))  # as Ray does
        signal.raise_signal(number)

    ray_that(init, tmp_path, monkeypatch, shutdown=lambda: ended.append("ray"))
    with pytest.raises(KeyboardInterrupt):
        ray_cluster.RayCluster()
    assert ended == ["ray"] and signal.getsignal(signal.SIGTERM) is own_handlers
