"""A task's image is made once in a sweep and sent to whoever needs it; two real daemons, and nodes that are played."""

import asyncio
import shutil
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

from hc_ray.domain.errors import ActorError, SandboxError
from hc_ray.sandboxes.docker.transfer import PART
from hc_ray.sandboxes.docker.values import ImageFacts
from hc_ray_actors.cluster import VERIFIER
from hc_ray_actors.driver.crew.images import Images
from hc_ray_actors.sandboxes import Sandboxes
from tests.fakes.contract_task import TASK
from tests.fakes.docker_daemon import OwnDaemon
from tests.fakes.docker_tasks import task_with_environment
from tests.fakes.sandbox_home import own_home

FACTS = ImageFacts(id="sha256:one", workdir="")


class Node:
    def __init__(self, *, has=None, builds=FACTS, dies=False):
        self.has, self.builds, self.dies, self.built, self.taken = has, builds, dies, 0, []

    async def alive(self):
        if self.dies:
            raise ActorError("died")
        return True

    async def image(self, task):
        return self.has

    async def prepare(self, task):
        self.built += 1
        await asyncio.sleep(0.01)
        if self.builds is None:
            raise SandboxError("no disk")
        self.has = self.builds

    async def take_image(self, task, image, source):
        await asyncio.sleep(0.01)
        if source.dies:
            raise ActorError("the sender died")
        self.taken.append(source)
        self.has = image


def images(nodes, grading=()):
    """On nodes that may come and go. ``grading``: those that have no candidates."""

    def by_node(*kinds):
        return {node: actor for node, actor in nodes.items() if node not in grading or VERIFIER in kinds}

    roster = {"by_node": by_node, "begin": asyncio.ensure_future, "changed": lambda: None}
    return Images(SimpleNamespace(**roster))


async def test_one_node_builds_and_those_who_ask_together_share_one_sending():
    a, b, c = Node(), Node(), Node(has=FACTS.model_copy(update={"id": "sha256:other", "layers": 2}))
    found = images({"a": a, "b": b})
    assert set(await asyncio.gather(*(found.begin(TASK, node) for node in "abab"))) == {"sha256:one"}
    assert (a.built, b.built, b.taken) == (1, 0, [a]) and found.id_of(TASK.digest) == "sha256:one"
    late = images({"a": Node(), "c": c})
    assert await late.begin(TASK, "a") == "sha256:other", "what a node has is not built again"
    assert await images({"a": a, "c": c}).begin(TASK, "c") == "sha256:other" and not c.taken


async def test_a_node_that_cannot_build_gets_what_another_built_and_a_sender_that_dies_is_replaced():
    sick, a, b, c = Node(builds=None), Node(), Node(), Node()
    nodes = {"sick": sick}
    found = images(nodes)
    for built in (1, 2):
        told = await asyncio.gather(*(found.begin(TASK, "sick") for _ in range(3)), return_exceptions=True)
        assert {str(fault) for fault in told} == {"no disk"} and sick.built == built, "once for all who wait"
    nodes |= {"a": a, "b": b, "c": c}
    assert await found.begin(TASK, "sick") == "sha256:one" and sick.taken == [a]
    assert [await found.begin(TASK, node) for node in "ab"] == ["sha256:one"] * 2
    a.dies = True
    assert await found.begin(TASK, "c") == "sha256:one" and c.taken == [b]
    found.left("b"), found.left("c")
    nodes.clear()
    nodes["d"] = Node(builds=FACTS.model_copy(update={"id": "sha256:two"}))
    assert await found.begin(TASK, "d") == "sha256:two", "with nobody left who has it, it is built anew"


async def test_a_trial_waits_until_its_task_can_run_where_candidates_do_and_not_where_there_is_grading_alone():
    class Busy(Node):
        async def prepare(self, task):
            self.built += 1
            await asyncio.sleep(0.01 if self.built == 1 else 0.2)

    found = images({"grades": Node(builds=False), "solves": Busy()}, grading={"grades"})
    await found.ready(TASK)
    assert not found.lacks("solves", TASK)


@pytest.mark.docker
async def test_a_second_daemon_gets_the_very_image_and_of_the_next_task_its_own_layers_alone_in_bounded_parts(
    tmp_path, monkeypatch
):
    # A short path: it holds sockets. No base image is there, and no registry: it could build nothing.
    folder = Path("/var/tmp", f"hc-i-{uuid.uuid4().hex[:8]}")
    folder.mkdir()
    other, sent = OwnDaemon(folder), []
    with own_home():
        here, there = (Sandboxes("docker", str(tmp_path), 2) for _ in range(2))
        try:
            other.start()
            monkeypatch.setenv("DOCKER_HOST", other.host)
            assert (await there.limits())["memory"]
            monkeypatch.delenv("DOCKER_HOST")
            export = here.export_part

            async def counted(number):
                part = await export(number)
                sent.append(len(part))
                return part

            monkeypatch.setattr(here, "export_part", counted)
            found = images({"here": here, "there": there})
            for most in (130 << 20, 1 << 20):
                task = task_with_environment(tmp_path, {"data.txt": uuid.uuid4().bytes})
                sent.clear()
                wanted = await found.begin(task, "there")  # which cannot build it
                assert wanted == (await here.image(task)).id == (await there.image(task)).id
                assert 0 < sum(sent) < most and max(sent) <= PART + 1024, sent
            await there.create("x", task, "x", False)
            assert (await there.call("x", "exec", ["cat", "data.txt"], timeout=20)).exit_code == 0
        finally:
            await asyncio.gather(here.stop(), there.stop())
            other.remove()
            shutil.rmtree(folder, ignore_errors=True)
