"""Which of a task's images Docker has or can get, found out before the first trial."""

import threading
import time

import pytest

from hc_ray.sandboxes.docker.availability import AT_ONCE, available, built_tag, refusal
from hc_ray.sandboxes.docker.values import DaemonGone, DaemonRefusal, ImageFacts
from tests.fakes.docker_tasks import task_with_environment

NO_HOST = 'Docker, asking for x: Get "https://registry-1.docker.io/v2/": lookup registry-1.docker.io: no such host'


class FakeDaemon:
    """Has some images, and a registry that shows some and is silent about others."""

    def __init__(self, *here, shown=(), silent=()):
        self.here, self.shown, self.silent = set(here), shown, silent
        self.asked = []
        self.let_go = threading.Event()

    def image(self, reference):
        return ImageFacts(id=reference, workdir="") if reference in self.here else None

    def ask_registry(self, reference, *, seconds):
        self.asked.append(reference)
        if reference in self.silent:
            self.let_go.wait(seconds)
            raise DaemonGone("Read timed out.")
        if reference not in self.shown:
            raise DaemonRefusal(NO_HOST)


def on(public, image, name="a"):
    return task_with_environment(public, {name: b""}, dockerfile=f"FROM {image}\nCOPY {name} .\n")


def test_each_image_is_looked_for_once_and_only_what_is_not_here_costs_a_question(tmp_path):
    daemon = FakeDaemon("here:1", shown=("shown:1",))
    tasks = [on(tmp_path, image, name) for image in ("here:1", "shown:1", "gone:1") for name in ("a", "b", "c")]
    found = available(tasks, tmp_path, daemon)
    assert found.pullable == ("shown:1",)
    assert found.missing == {"gone:1": "lookup registry-1.docker.io: no such host"}
    assert sorted(daemon.asked) == ["gone:1", "shown:1"]
    assert found.without == {task.digest: "gone:1" for task in tasks[6:]}


def test_every_stage_of_a_dockerfile_must_be_there_and_a_prebuilt_image_too(tmp_path):
    staged = task_with_environment(tmp_path, dockerfile="FROM here:1 AS made\nFROM gone:1\nCOPY --from=made /x /x\n")
    prebuilt = task_with_environment(tmp_path, {}, dockerfile=None, docker_image="gone:2")
    found = available([staged, prebuilt], tmp_path, FakeDaemon("here:1"))
    assert found.without == {staged.digest: "gone:1", prebuilt.digest: "gone:2"}


def test_a_task_whose_image_is_built_or_that_docker_refuses_anyway_has_none_asked_for(tmp_path):
    task = on(tmp_path, "gone:1")
    daemon = FakeDaemon(built_tag(task))
    assert available([task], tmp_path, daemon).missing == {} and daemon.asked == []
    task = task_with_environment(tmp_path, dockerfile="FROM gone:1\nRUN --mount=type=cache,target=/x true\n")
    daemon = FakeDaemon()
    assert "BuildKit" in (refusal(task) or "")
    assert available([task], tmp_path, daemon).missing == {} and daemon.asked == []


@pytest.mark.parametrize(("number", "seconds", "limit"), [
    (AT_ONCE, {"ASK_SECONDS": 0.3}, 0.3), (10 * AT_ONCE, {"ASK_SECONDS": 0.4, "ALL_SECONDS": 0.6}, 0.6),
], ids=["asked side by side", "however many they are"])  # fmt: skip
def test_registries_that_say_nothing_hold_nobody_up(tmp_path, monkeypatch, number, seconds, limit):
    for name, value in seconds.items():
        monkeypatch.setattr(f"hc_ray.sandboxes.docker.availability.{name}", value)
    images = tuple(f"silent:{one}" for one in range(number))
    daemon, began = FakeDaemon(silent=images), time.monotonic()
    found = available([on(tmp_path, image) for image in images], tmp_path, daemon)
    assert time.monotonic() - began < 3 - (number == AT_ONCE) and set(found.missing) == set(images)
    daemon.let_go.set()
    assert f"within {limit} s" in found.missing[images[-1]]
    assert number > AT_ONCE or set(found.missing.values()) == {"its registry showed nothing within 0.3 s"}


def test_what_is_no_fault_of_docker_is_not_taken_for_a_missing_image(tmp_path):
    class Broken(FakeDaemon):
        def ask_registry(self, reference, *, seconds):
            raise KeyError("a bug")

    with pytest.raises(KeyError):
        available([on(tmp_path, "x:1")], tmp_path, Broken())
