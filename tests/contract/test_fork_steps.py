"""What is done in a fork within one call: on every backend, as this process has its sandboxes, and as one has them that
asks an actor."""

import asyncio
import uuid

import pytest

from hc_ray.domain.fork_steps import Exec, Put, PutTar, TakeDifference, in_fork
from hc_ray.domain.ports import Sandbox
from hc_ray_actors import node_probe
from hc_ray_actors.remote_place import RemotePlace, Station
from hc_ray_actors.sandboxes import Sandboxes
from tests.fakes.contract_task import TASK, shell
from tests.fakes.detached import Detached
from tests.fakes.machine import becomes, running


@pytest.fixture(params=["itself", "through an actor"])
async def base(request, place, monkeypatch):
    if request.param != "itself":
        monkeypatch.setattr(node_probe, "open_place", lambda *_, own=place, **__: own)
        place = RemotePlace({"here": Station(Detached(Sandboxes("", None, 2)))})
    sandbox = await place.create(TASK, f"base-{uuid.uuid4().hex[:8]}")
    yield sandbox
    await sandbox.close()


async def test_steps_in_a_fork_do_what_the_calls_do_and_the_sandbox_stays_as_it_was(base: Sandbox) -> None:
    await base.put({"f": b"mine"})
    write = Put(files={"f": b"yours", "run.sh": b"#!/bin/sh\ncat f\nexit 3\n"}, mode=0o755)
    said = await in_fork(base, "said", [write], Exec(command=("./run.sh",), timeout=20))
    assert (said.exit_code, said.stdout) == (3, b"yours")
    taken = await in_fork(base, "taken", [write], TakeDifference())
    assert taken.changed == ("/app/f", "/app/run.sh")
    again = await in_fork(base, "again", [PutTar(tar=taken.tar)],
                          Exec(command=("./run.sh",), timeout=20, output_limit=2))  # fmt: skip
    assert (again.stdout, again.truncated) == (b"yo", True) and await shell(base, "cat f; ls") == "minedata.txt\nf\n"


async def test_a_fork_is_gone_after_its_last_step_one_that_cannot_be_taken_and_one_that_is_given_up(base):  # fmt: skip
    marker = f"7{uuid.uuid4().int % 10**9}.5"
    start = Exec(command=("sh", "-c", f"sleep {marker} >/dev/null 2>&1 &"), timeout=20)
    await in_fork(base, "ended", [], start)
    assert running(marker) == 0
    with pytest.raises(ValueError):
        await in_fork(base, "refused", [start, Put(files={"data.txt/x": b""})], start)
    assert running(marker) == 0
    given_up = asyncio.ensure_future(in_fork(base, "given up", [], Exec(command=("sleep", marker), timeout=60)))
    await becomes(marker, 1)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    await becomes(marker, 0)
