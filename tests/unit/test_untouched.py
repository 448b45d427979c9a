"""Untouched sandboxes for shared grading: one waits for the next grading of its task."""

import pytest

from hc_ray.blind.grading.untouched import IDLE, Untouched
from hc_ray.domain.errors import SandboxError
from hc_ray.domain.task import Environment, Task


class Box:
    def __init__(self, place):
        self.place, self.ended = place, False

    async def close(self):
        self.ended = True
        self.place.open.discard(self)


class Place:
    """Makes sandboxes and knows which are open."""

    def __init__(self):
        self.open, self.made = set(), 0

    async def create(self, task, name, *, network=False):
        self.made += 1
        self.open.add(box := Box(self))
        return box


def of(place, name="one"):
    return Untouched(place, Task(name=name, digest=name, instruction="", environment=Environment()), network=False)


async def asked(box):
    if box.ended:
        raise SandboxError("it has ended")
    return box


async def test_the_next_grading_of_a_task_looks_into_the_sandbox_that_waits_and_one_of_another_task_does_not():
    place = Place()
    first = await of(place).ask(asked)
    assert await of(place).ask(asked) is first
    assert await of(place, "two").ask(asked) is not first
    assert await of(Place()).ask(asked) is not first
    boxes = [await of(place, f"task-{number}").ask(asked) for number in range(IDLE + 2)]
    assert place.open == {*boxes[2:]}, "those that were graded last"


async def test_one_that_ended_while_it_waited_is_replaced_and_one_whose_look_fails_waits_no_more():
    place = Place()
    first = await of(place).ask(asked)
    first.ended = True
    second = await of(place).ask(asked)
    assert second is not first and not second.ended

    async def breaks(box):
        raise ValueError

    with pytest.raises(ValueError):
        await of(place).ask(breaks)
    assert place.open == set()


async def test_of_two_gradings_at_once_each_has_its_own_and_both_wait_for_the_next_two():
    place = Place()

    async def both(box):
        return box, await of(place).ask(asked)

    outer, inner = await of(place).ask(both)
    assert outer is not inner and place.open == {outer, inner}
    assert {*await of(place).ask(both)} == {outer, inner} and place.made == 2
