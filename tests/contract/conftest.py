import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hc_ray.domain.ports import Sandbox, SandboxPlace
from tests.fakes.contract_task import DIGEST, DOCKERFILE, TASK
from tests.fakes.sandbox_home import BACKENDS, data_home, open_place


@pytest.fixture(scope="module")
def public_root() -> Iterator[Path]:
    with data_home() as home:
        public = home / f"public-{os.getpid()}"
        folder = public / DIGEST / "environment"
        (folder / "more").mkdir(parents=True)
        (folder / "Dockerfile").write_text(DOCKERFILE)
        (folder / "data.txt").write_text("one\n")
        (folder / "more" / "tool.sh").write_text("#!/bin/sh\necho tool\n")
        (folder / "more" / "tool.sh").chmod(0o755)
        yield public
        shutil.rmtree(public)


@pytest.fixture(scope="module", params=BACKENDS)
def place(request: pytest.FixtureRequest, public_root: Path) -> Iterator[SandboxPlace]:
    opened = open_place(request.param, public_root)
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
async def box(place: SandboxPlace) -> AsyncIterator[Sandbox]:
    sandbox = await place.create(TASK, f"box-{uuid.uuid4().hex[:8]}")
    yield sandbox
    await sandbox.close()
