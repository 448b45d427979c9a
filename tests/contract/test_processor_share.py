"""What sandboxes get of the cores, as the kernel tells it."""

import asyncio
import uuid
from pathlib import Path

from hc_ray.domain.ports import Sandbox
from hc_ray.sandboxes.processor_share import GROUP, processor_share

LIVES = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.execvp('sleep', [sys.argv[1], '20'])"
"""A process of its own session that outlives its command."""


def groups(name: str) -> list[str]:
    """CPU cgroups of the processes that are called so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_text().startswith(name):
                lines = [line.split(":", 2) for line in (folder / "cgroup").read_text().splitlines()]
                found.append(next(path for _, names, path in lines if "cpu" in names.split(",") or not names))
        except OSError:
            continue
    return found


async def test_all_that_a_sandbox_starts_lies_in_the_cgroup_of_all_sandboxes(box: Sandbox) -> None:
    name = f"sleeper-{uuid.uuid4().hex}"
    started = await box.exec(["python3", "-c", LIVES, name], timeout=20)
    assert started.exit_code == 0, started
    async with asyncio.timeout(10):
        while not groups(name):
            await asyncio.sleep(0.05)
    if (share := processor_share()) is not None:
        (group,) = groups(name)
        assert group.startswith(f"/{GROUP}/")
        shares = next(share.folder / one for one in ("cpu.shares", "cpu.weight") if (share.folder / one).exists())
        assert shares.read_text().strip() in ("1024", "100")
