"""What the tests of capability looked at, for docs/trust.md."""

from collections.abc import Iterator

import pytest

from tests.boundary.capability.starts import Spied
from tests.fakes.figures import tell


class Figures:
    """Sums over the starts of a sweep, and the planted tokens."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.processes = self.files = self.files_inside = self.bytes = self.found = 0
        self.places_planted = self.places_found = 0

    def walked(self, start: str, told: Spied) -> None:
        self.starts.append(start)
        self.processes += told.walked.processes
        self.files += told.walked.files
        self.bytes += told.walked.bytes
        self.found += len(told.walked.found)
        self.files_inside += sum(walked for walked, _, _ in told.inside)


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    kept = Figures()
    yield kept
    tell("capability", vars(kept))
