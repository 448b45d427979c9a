"""A real daemon is asked whether an image can be pulled; the registry behind it is a test's own."""

import time
from collections.abc import Iterator

import pytest

from hc_ray.domain.errors import SandboxError
from hc_ray.machine.owner import current_owner
from hc_ray.sandboxes.docker.client import Daemon
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from hc_ray.sandboxes.docker.values import DaemonGone, DaemonRefusal, ImageFacts
from tests.fakes.docker_tasks import task_with_environment
from tests.fakes.registry import SMALL, SMALL_ID, registry

pytestmark = pytest.mark.docker


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    yield made
    made.close()


def test_a_registry_is_asked_for_a_manifest_alone_and_its_words_are_told_where_it_has_none(daemon):
    with registry() as address:
        daemon.ask_registry(f"{address}/small:1", seconds=5)
        assert daemon.image(f"{address}/small:1") is None
        with pytest.raises(DaemonRefusal, match="manifest unknown"):
            daemon.ask_registry(f"{address}/unknown:1", seconds=5)


def test_a_registry_that_nobody_reaches_or_that_says_nothing_is_given_up_in_time(daemon: Daemon) -> None:
    began = time.monotonic()
    with registry() as address, pytest.raises(DaemonGone):
        daemon.ask_registry(f"{address}/silent/x:1", seconds=1)
    with pytest.raises(SandboxError):
        daemon.ask_registry("127.0.0.1:9/nobody:1", seconds=1)
    assert time.monotonic() - began < 5


class _Sender:
    asked = 0

    async def begin_export(self, image: str, skip: int) -> int:
        self.asked += 1
        return 1

    async def export_part(self, number: int) -> bytes:
        raise SandboxError("it is sent, then")


async def test_an_image_that_a_registry_shows_by_its_digest_is_pulled_and_else_another_node_sends_it(tmp_path, daemon):
    place, sender = DockerPlace(tmp_path, owner=current_owner()), _Sender()
    with registry() as address:
        name = f"{address}/{SMALL}"
        task = task_with_environment(tmp_path, {}, dockerfile=None, docker_image=name)
        facts = ImageFacts(id=SMALL_ID, workdir="", digests=(name,))
        try:
            await place.images.take(task, facts, sender)
            held = await place.images.held(task)
            assert held is not None and (held.id, sender.asked) == (SMALL_ID, 0)
        finally:
            daemon.remove_image(f"hc-ray/task:{task.digest[:16]}")
            daemon.remove_image(name)
        with pytest.raises(SandboxError, match="it is sent, then"):
            await place.images.take(
                task, facts.model_copy(update={"digests": (f"{address}/unknown@{SMALL_ID}",)}), sender
            )
    assert sender.asked == 1 and daemon.image(SMALL_ID) is None
    await place.close()
