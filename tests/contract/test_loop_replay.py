"""Stored trials of the style ``loop``, decided again: the replay hands in what the trial did. Trials in a real sandbox;
the model alone is scripted."""

import json
from typing import Any

import pytest

from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.value import readable_json
from hc_ray.reports.replay.pools import Pool, choose, read_pools
from hc_ray.stores.sweep_directory import parquet
from hc_ray_actors.driver.trial_files import MATRIX_COLUMNS, matrix_rows
from tests.fakes import sweepdir
from tests.fakes.loop_trial import RIGHT, SUBMIT, SUMMARY, TESTS, WRONG, Ran, Script, besides, each, place, trial, write

__all__ = ["place"]
HALF = "def add(a, b):\n    return 5 if a == 2 else a - b\n"
"""Passes the first test alone."""
IDLE = TESTS[1].model_copy(update={"id": "idle", "input": "add(9, 3) < 99", "discriminates": False, "weight": 9.0})


def stored(ran: Ran, **knobs: Any) -> Pool:
    """The pool of a trial, as a sweep directory holds it."""
    store, outcome = sweepdir.sweep(), ran.outcome
    selection = outcome.selection.model_dump(mode="json") if outcome.selection else None
    name = sweepdir.add_trial(store, "t", "hc", True, metadata={"selection": selection})
    folder = f"trials/{name}"
    store.write(f"{folder}/config.json", readable_json(
        {"solver": {"agent_style": "loop", "selector": "posterior", **knobs}}))  # fmt: skip
    store.write(f"{folder}/agent/candidates.json", readable_json(
        [one.model_dump(mode="json") for one in outcome.candidates]))  # fmt: skip
    if outcome.matrix is not None:
        store.write(f"{folder}/agent/matrix.parquet", parquet(matrix_rows(outcome), MATRIX_COLUMNS))
        store.write(f"{folder}/agent/tests.json", readable_json(
            [one.model_dump(mode="json") for one in outcome.matrix_tests]))  # fmt: skip
    events = [{"type": "trial_start", "trial": name}]
    events += [{**one.model_dump(mode="json"), "trial": name} for one in ran.journal]
    # An attempt that was broken off counts for nothing.
    broken = [{"type": "action", "name": "round", "trial": name, "detail": {"number": 7}}]
    store.write("events/000000.jsonl", "".join(f"{json.dumps(one)}\n" for one in broken + events).encode())
    (pool,) = read_pools(store)
    return pool


async def test_a_search_with_repairs_and_width_is_decided_again_as_it_was(place: SandboxPlace) -> None:
    texts = {0: (WRONG, HALF, HALF), 1: (WRONG, WRONG, WRONG), 2: (HALF, RIGHT, RIGHT), 3: (WRONG, WRONG, WRONG)}

    def script(prompt: Prompt, turn: int, lineage: int) -> str | Completion:
        told = [one.content for one in prompt.messages if one.role == "user" and "These failed" in one.content]
        last = prompt.messages[-1].content
        return write(texts[lineage][len(told)]) if turn == 0 or last in told else SUBMIT

    ran = await trial(place, script, "hc", tests=(*TESTS, IDLE))
    pool = stored(ran)
    assert [one["tests"] for one in ran.told("dispute")] and len(pool.rounds) == 2
    assert {test.id: test.weight for test in pool.tests} == {"t2": 1.0, "t5": 1.0, "idle": 9.0}
    right = next(one.id for one in pool.candidates if one.files.get("add.py") == RIGHT)
    assert choose(pool, "posterior") == ran.outcome.chosen == right


async def test_a_comparison_is_taken_from_the_journal(place: SandboxPlace) -> None:
    script = besides(each(WRONG, RIGHT, RIGHT + "\n\nMORE = 1\n"), summary=SUMMARY, tournament="2")
    ran = await trial(place, script, "hc", samples=2, tournament=True)
    pool = stored(ran)
    assert choose(pool, "posterior") == ran.outcome.chosen == "c2.0"


@pytest.mark.parametrize("limit", [1, 2])
async def test_what_is_decided_is_no_more_than_the_trial_had_time_for(place: SandboxPlace, limit: int) -> None:
    """A round that was cut off decided nothing."""
    script: Script = lambda prompt, turn, lineage: write((WRONG, RIGHT)[min(lineage, 1)]) if turn == 0 else SUBMIT  # noqa: E731
    ran = await trial(place, script, "hc", tests=TESTS, max_rounds=2)
    pool = stored(ran)
    cut_off = [one if i + 1 < limit else one.model_copy(update={"picked": ()}) for i, one in enumerate(pool.rounds)]
    cut = pool.model_copy(update={"rounds": tuple(cut_off)})
    assert len(pool.rounds) == 2 and choose(pool, "posterior") == ran.outcome.chosen == "c2.0"
    assert choose(cut, "posterior") == ("c2.0" if limit == 1 else "c1.0")
