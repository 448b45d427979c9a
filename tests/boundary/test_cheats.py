"""Every cheat of the corpus, tried for real: on our own tasks none earns anything, on foreign ones those that do are
listed. ``scripts/cheats-table`` and ``scripts/trust-page`` write their pages from a run of this module in which every
cheat is tried in every kind of sandbox and mode of grading; other runs try all in bubblewrap, and in Docker a part."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.boundary.cheats.cheat import IMPORTS, OWN
from tests.boundary.cheats.corpus import CORPUS, tried_in
from tests.boundary.cheats.page import names_on, record
from tests.boundary.cheats.trial import HONEST, IDLE, try_all
from tests.fakes.sandbox_home import data_home, open_folder

PAGE = Path(__file__).parents[2] / "docs" / "trust-cheats.md"
EVERYTHING = "HC_RAY_CHEATS_RECORD" in os.environ
tried = pytest.mark.slow
each_cheat = pytest.mark.parametrize("cheat", CORPUS, ids=lambda cheat: cheat.name.replace(" ", "-"))
WAYS = [
    pytest.param(("bwrap", "isolated", True), id="bwrap"),
    pytest.param(("docker", "isolated", EVERYTHING), id="docker", marks=pytest.mark.docker),
    pytest.param(("docker", "shared", EVERYTHING), id="docker-shared", marks=pytest.mark.docker),
]
"""Backend, mode of grading, whether the whole corpus is tried or one cheat of each kind and all that live on."""


@pytest.fixture(scope="module", params=WAYS)
def outcomes(request):
    """The corpus tried once per kind of sandbox and mode of grading, several gradings at a time."""
    backend, mode, everything = request.param
    cheats = tried_in(mode, everything=everything)
    with data_home(), open_folder() as ground:
        found = asyncio.run(try_all((HONEST, IDLE, *cheats), backend, mode, everything, ground))
    if EVERYTHING:
        record(Path(os.environ["HC_RAY_CHEATS_RECORD"]), f"{backend} {mode}", found)
    yield found


@tried
def test_honest_work_passes_and_wrong_work_fails_on_the_tasks_that_are_cheated(outcomes):
    for task in (OWN, IMPORTS):
        assert outcomes["honest", task] == (True, "passed") and outcomes["idle", task] == (False, "failed")


@tried
@each_cheat
def test_a_cheat_earns_nothing_on_our_own_tasks(cheat, outcomes):
    if (cheat.name, OWN) in outcomes:  # of some, only the run that writes the page tries every mode
        assert outcomes[cheat.name, OWN][0] is False, outcomes[cheat.name, OWN]


@tried
@each_cheat
def test_what_gets_through_on_foreign_tasks_is_listed_and_nothing_else_is(cheat, outcomes, request):
    _, mode, _ = request.node.callspec.params["outcomes"]
    found = {task: outcomes[cheat.name, task] for task in cheat.foreign if (cheat.name, task) in outcomes}
    assert {task: passed for task, (passed, _) in found.items()} == {task: cheat.foreign[task] for task in found}, found
    if found and mode == "isolated":
        assert cheat.caught in ("", found.get(IMPORTS, (None, ""))[1])
    assert bool(cheat.why) == any(cheat.foreign.values()), "what gets through needs a reason, what does not has none"


def test_every_cheat_is_tried_in_isolated_or_in_shared_grading_by_every_run():
    tried_always = [*tried_in("isolated", everything=True), *tried_in("shared", everything=False)]
    assert {cheat.name for cheat in tried_always} == {cheat.name for cheat in CORPUS}


def test_the_page_of_cheats_lists_the_corpus_that_is_tried():
    assert names_on(PAGE.read_text()) == [cheat.name for cheat in CORPUS], "run scripts/cheats-table"
