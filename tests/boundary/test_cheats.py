"""Every cheat of the corpus, tried for real: on our own tasks none earns anything, on foreign ones those that do are
listed. ``scripts/cheats-table`` writes docs/trust-cheats.md from a run of this module."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boundary.cheats.cheat import IMPORTS, OWN, Cheat
from tests.boundary.cheats.corpus import CORPUS
from tests.boundary.cheats.page import names_on, record
from tests.boundary.cheats.trial import HONEST, IDLE, Outcomes, try_all
from tests.fakes.sandbox_home import BACKENDS, data_home

PAGE = Path(__file__).parents[2] / "docs" / "trust-cheats.md"
tried = pytest.mark.slow
each_cheat = pytest.mark.parametrize("cheat", CORPUS, ids=lambda cheat: cheat.name.replace(" ", "-"))


@pytest.fixture(scope="module", params=BACKENDS)
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """The corpus tried once per kind of sandbox, several gradings at a time."""
    ground = Path(tempfile.mkdtemp(prefix="hc-cheats-"))
    ground.chmod(0o755)
    with data_home():
        found = asyncio.run(try_all((HONEST, IDLE, *CORPUS), request.param, ground))
    shutil.rmtree(ground, ignore_errors=True)
    if folder := os.environ.get("HC_RAY_CHEATS_RECORD"):
        record(Path(folder), request.param, found)
    yield found


@tried
def test_honest_work_passes_and_wrong_work_fails_on_the_tasks_that_are_cheated(outcomes: Outcomes) -> None:
    for task in (OWN, IMPORTS):
        assert outcomes["honest", task] == (True, "passed")
        assert outcomes["idle", task] == (False, "failed")


@tried
@each_cheat
def test_a_cheat_earns_nothing_on_our_own_tasks(cheat: Cheat, outcomes: Outcomes) -> None:
    assert outcomes[cheat.name, OWN][0] is False, outcomes[cheat.name, OWN]


@tried
@each_cheat
def test_what_gets_through_on_foreign_tasks_is_listed_and_nothing_else_is(cheat: Cheat, outcomes: Outcomes) -> None:
    found = {task: outcomes[cheat.name, task] for task in cheat.foreign}
    assert {task: passed for task, (passed, _) in found.items()} == dict(cheat.foreign), found
    assert cheat.caught in ("", found.get(IMPORTS, (None, ""))[1])
    assert bool(cheat.why) == any(cheat.foreign.values()), "what gets through needs a reason, what does not has none"


def test_the_page_of_cheats_lists_the_corpus_that_is_tried() -> None:
    assert names_on(PAGE.read_text()) == [cheat.name for cheat in CORPUS], "run scripts/cheats-table"
