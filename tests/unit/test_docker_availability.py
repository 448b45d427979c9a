import threading

import pytest

from hc_ray.domain.errors import DatasetError
from hc_ray.sandboxes.docker.availability import ASK_SECONDS, AT_ONCE, available, built_tag, refusal
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from hc_ray.sandboxes.docker.values import DaemonGone, DaemonRefusal, ImageFacts
from tests.fakes.docker_tasks import task_with_environment

NO_HOST = 'Docker, asking for x: Get "https://registry-1.docker.io/v2/": lookup registry-1.docker.io: no such host'


class FakeDaemon:
    """Has some images, and a registry that shows some."""

    def __init__(self, *here, shown=()):
        self.here, self.shown = set(here), shown
        self.asked = []

    def image(self, reference):
        return ImageFacts(id=reference, workdir="") if reference in self.here else None

    def ask_registry(self, reference, *, seconds):
        self.asked.append(reference)
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


@pytest.mark.parametrize(("wants", "word"), [
    ({"compose": True}, "Compose"), ({"gpus": 1}, "GPU"), ({"network": "allowlist"}, "some hosts only"),
    ({"dockerfile": None}, "neither"), ({}, None),
])  # fmt: skip
async def test_a_task_that_docker_cannot_take_is_refused_with_the_reason_before_a_daemon_is_asked(
    tmp_path, wants, word
):
    task, place = task_with_environment(tmp_path, **wants), DockerPlace(tmp_path, owner="o")
    assert word in place.refuses(task) if word else place.refuses(task) is None
    if word:
        with pytest.raises(DatasetError, match=word):
            await place.create(task, "a")


class Silent(FakeDaemon):
    """A registry that says nothing until it is ``let`` go."""

    def __init__(self, let):
        super().__init__()
        self.let, self.went = let, []

    def ask_registry(self, reference, *, seconds):
        self.asked.append(seconds)
        self.let()
        self.went.append(reference)
        raise DaemonGone("Read timed out.")


def test_registries_that_say_nothing_are_asked_side_by_side(tmp_path):
    daemon = Silent(lambda: together.wait(20))
    together = threading.Barrier(AT_ONCE)  # none ends before all are asked
    found = available([on(tmp_path, f"silent:{one}") for one in range(AT_ONCE)], tmp_path, daemon)
    assert list(found.missing.values()) == [f"its registry showed nothing within {ASK_SECONDS:g} s"] * AT_ONCE
    assert daemon.asked == [ASK_SECONDS] * AT_ONCE


def test_registries_that_say_nothing_hold_nobody_up_however_many_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("hc_ray.sandboxes.docker.availability.ALL_SECONDS", 0.1)
    gate = threading.Event()
    daemon = Silent(lambda: gate.wait(20))
    found = available([on(tmp_path, f"silent:{one}") for one in range(10 * AT_ONCE)], tmp_path, daemon)
    assert daemon.went == [], "nobody waited for one of them"
    gate.set()
    assert list(found.missing.values()) == ["its registry showed nothing within 0.1 s"] * 10 * AT_ONCE
