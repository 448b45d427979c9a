from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hc_ray.machine.owner import current_owner
from hc_ray.sandboxes.docker.sandbox import DockerPlace
from tests.fakes.sandbox_home import data_home, open_folder


@pytest.fixture
def ground() -> Iterator[Path]:
    with open_folder() as folder, data_home():
        yield folder


@pytest.fixture
async def places(ground: Path) -> AsyncIterator[tuple[DockerPlace, DockerPlace]]:
    """A solver's place and a verifier's, as two processes of one node have them."""
    pair = tuple(DockerPlace(ground / "public", owner=f"{current_owner()}-{label}") for label in ("solve", "verify"))
    yield pair[0], pair[1]
    for place in pair:
        await place.close()
