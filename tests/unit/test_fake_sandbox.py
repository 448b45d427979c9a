"""The fake place keeps the same words as the real ones, as far as it goes."""

import pytest

from hc_ray.domain.errors import SandboxError
from hc_ray.domain.fork_steps import Put, TakeDifference, in_fork
from hc_ray.domain.task import Environment, Task
from tests.fakes.sandbox import FakePlace

TASK = Task(name="t", digest="d", instruction="", environment=Environment())


async def test_the_fake_sandbox_plays_files_forks_and_differences():
    place = FakePlace(image={"/app/old": b"1", "/etc/x": b"2"})
    box = await place.create(TASK, "a")
    await box.put({"new": b"n", "/tmp/t": b"t"}, mode=0o755)
    found = await box.difference()
    assert (found.changed, found.deleted) == (("/app/new",), ())
    child = await box.fork("b")
    del place.sandboxes[1].files["/app/old"]
    fresh = await place.create(TASK, "c")
    await fresh.put_tar((await child.difference()).tar)
    assert (await fresh.difference()).tar == (await child.difference()).tar
    assert await fresh.get("old") is None and await box.get("old", limit=1) == b"1"
    change = await in_fork(box, "d", [Put(files={"old": b"2"})], TakeDifference())
    assert change.changed == ("/app/new", "/app/old") and await box.get("old") == b"1" and place.sandboxes[-1].closed
    await box.close()
    with pytest.raises(SandboxError):
        await box.get("old")
