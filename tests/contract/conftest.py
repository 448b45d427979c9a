import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hc_ray.domain.ports import Sandbox, SandboxPlace
from tests.fakes.contract_task import TASK
from tests.fakes.sandbox_home import BACKENDS, laid_out, opened


@pytest.fixture(scope="module")
def public_root() -> Iterator[Path]:
    with laid_out(TASK, {"data.txt": "one\n", "more/tool.sh": "#!/bin/sh\necho tool\n"}) as root:
        yield root


@pytest.fixture(scope="module", params=BACKENDS)
def place(request: pytest.FixtureRequest, public_root: Path) -> Iterator[SandboxPlace]:
    with opened(request.param, public_root) as one:
        yield one


@pytest.fixture
async def box(place: SandboxPlace) -> AsyncIterator[Sandbox]:
    sandbox = await place.create(TASK, f"box-{uuid.uuid4().hex[:8]}")
    yield sandbox
    await sandbox.close()
