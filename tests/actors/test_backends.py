"""``--sandbox auto``: what is taken on which machine, and what the plan says of it."""

import pytest

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import PlatformError
from hc_ray.domain.task import Environment, Task
from hc_ray.sandboxes.docker.availability import Availability
from hc_ray_actors.backends import Backends, Choice, choose
from hc_ray_actors.driver.task_choice import fitting, placed

SMALL = Task(name="small", digest="s", instruction="", environment=Environment(dockerfile="FROM python:3.11\n"))
BUILT = Task(name="built", digest="b", instruction="", environment=Environment(
    dockerfile="FROM here:1\nRUN make\n", base="here:1", run_steps=("RUN make",)))  # fmt: skip
NO_DOCKER = "permission denied on /var/run/docker.sock: add yourself to the docker group"
NO_BWRAP = "bwrap cannot start\nsudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"


class Machine(Backends):
    """A machine whose Docker and bubblewrap are as a test says. ``missing``: image → why it cannot be pulled."""

    def __init__(self, *, docker=None, bwrap=None, missing=None, without=None, pullable=()):
        self.faults = {"docker": docker, "bwrap": bwrap}
        self.found = Availability(pullable=pullable, missing=missing or {}, without=without or {})
        self.looked = 0

    def fault(self, backend):
        return self.faults[backend]

    def images(self, tasks, public_root):
        self.looked += 1
        return self.found

    def bubblewrap_takes(self, task, public_root):
        return not task.environment.run_steps


def auto(machine, *tasks):
    return choose("auto", tasks or (SMALL, BUILT), here=machine)


@pytest.mark.parametrize(("pullable", "why"), [
    ((), "Docker responds and has the tasks' base images"),
    (("a:1", "b:1", "c:1", "d:1"), "Docker responds; a:1, b:1, c:1 and 1 more will be pulled"),
])  # fmt: skip
def test_docker_that_has_or_can_pull_the_images_is_taken_and_the_plan_says_what_is_pulled(pullable, why):
    choice = auto(Machine(pullable=pullable))
    assert (choice.backend, choice.why) == ("docker", why)


def test_without_docker_or_images_bubblewrap_is_taken_with_what_docker_would_need():
    machine = Machine(docker=NO_DOCKER)
    choice = auto(machine)
    assert choice.backend == "bwrap" and NO_DOCKER in choice.why and machine.looked == 0
    second = SMALL.model_copy(update={"name": "second", "digest": "t"})
    lacking = Machine(missing={"python:3.11": "no such host"}, without={"s": "python:3.11", "t": "python:3.11"})
    choice = auto(lacking, SMALL, second, BUILT)
    says = "lacks python:3.11 and cannot pull it (no such host): docker pull python:3.11"
    assert choice.backend == "bwrap" and says in choice.why


@pytest.mark.parametrize(("bwrap", "tasks"), [(None, (BUILT, BUILT)), (NO_BWRAP, (SMALL, BUILT))])
def test_docker_stays_for_the_tasks_whose_images_it_has_where_bubblewrap_can_do_nothing(bwrap, tasks):
    other = tasks[0].model_copy(update={"name": "other", "digest": "o"})
    machine = Machine(bwrap=bwrap, missing={"gone:1": "no such host"}, without={"o": "gone:1"})
    choice = auto(machine, other, tasks[1])
    assert choice.backend == "docker" and "bubblewrap" in choice.why
    assert list(choice.refused) == ["o"] and "docker pull gone:1" in choice.refused["o"]


def test_docker_is_taken_where_it_has_images_for_as_many_tasks_as_bubblewrap_takes_and_only_the_others_are_refused():
    machine = Machine(missing={"gone:1": "no such host"}, without={"s": "gone:1"})
    choice = auto(machine, SMALL, BUILT)
    assert choice.why == "Docker responds and has images for 1 of 2 tasks; bubblewrap can run 1"
    assert (choice.backend, list(choice.refused)) == ("docker", ["s"]) and "gone:1" in choice.refused["s"]
    lists = SMALL.environment.model_copy(update={"network": "allowlist"})
    unserved = BUILT.model_copy(update={"environment": lists})
    assert auto(machine, SMALL, unserved).backend == "bwrap", "a task that Docker refuses is none that it serves"


@pytest.mark.parametrize("machine", [
    Machine(docker=NO_DOCKER, bwrap=NO_BWRAP),
    Machine(bwrap=NO_BWRAP, missing={"x:1": "no such host"}, without={"s": "x:1", "b": "x:1"}),
])  # fmt: skip
def test_where_no_sandbox_works_both_remedies_are_told(machine):
    with pytest.raises(PlatformError) as told:
        auto(machine)
    assert "sysctl" in str(told.value) and "Docker" in str(told.value)
    assert "docker group" in str(told.value) or "docker pull x:1" in str(told.value)


def test_docker_asked_for_by_name_stays_with_a_note_of_what_it_lacks_and_what_does_not_work_is_an_error():
    choice = choose("docker", [SMALL], here=Machine(missing={"x:1": "no such host"}, without={"s": "x:1"}))
    assert (choice.backend, choice.why, choice.refused) == ("docker", "asked for", {})
    assert "docker pull x:1" in choice.notes[0]
    for wanted, name, remedy in (("docker", "Docker", "docker group"), ("bwrap", "bubblewrap", "sysctl")):
        with pytest.raises(PlatformError) as told:
            choose(wanted, here=Machine(docker=NO_DOCKER, bwrap=NO_BWRAP))
        assert f"{name} (asked for)" in str(told.value) and remedy in str(told.value)


def test_tasks_that_the_sandboxes_cannot_take_are_refused_and_a_resumed_sweep_goes_on_where_it_began(tmp_path):
    choice = Choice(backend="bwrap", why="")
    taken, refused = fitting([SMALL, BUILT], [], choice, tmp_path)
    assert [task.name for task in taken] == ["small"]
    assert [(task.name, "runs commands (RUN" in task.reason) for task in refused] == [("built", True)]
    for why in ("Docker responds and has the tasks' base images", "as this sweep began"):
        chosen, *_ = placed(SweepConfig(), tmp_path, [SMALL], [], tmp_path, str(tmp_path), Machine())
        assert (chosen.backend, chosen.why) == ("docker" if "Docker" in why else "bwrap", why)
        (tmp_path / "sweep.json").write_text('{"sandbox": "bwrap"}')
    with pytest.raises(PlatformError, match=r"Docker \(as this sweep began\) does not work on this machine"):
        choose("docker", why="as this sweep began", here=Machine(docker=NO_DOCKER))
