"""The parts of a task: from a model by schema or the generic four, with checkpoints and limits."""

import json

import pytest

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.events import SubtaskChange
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.domain.task import Environment
from hc_ray.search import decompose
from hc_ray.search.decompose import ATTEMPTS, GENERIC, Progress, Reached
from hc_ray.spec.reading import read_spec
from tests.unit.test_orchestrate import BROKEN, INSTRUCTION, RIGHT, WRONG, Bench, scripted

SPEC = read_spec(INSTRUCTION, Environment())
PARTS = [{"name": "signature", "goal": "Write the function with its name.", "hint": ""},
         {"name": "refusal", "goal": "Refuse what is negative.", "hint": "Raise ValueError."},
         {"name": "check", "goal": "Look at the example once more.", "hint": ""}]  # fmt: skip


def test_a_model_is_asked_with_a_schema_and_its_parts_share_the_turns_to_the_end():
    prompt = decompose.ask(SPEC, seed=1)
    assert INSTRUCTION.strip() in prompt.messages[0].content and prompt.role == "decomposer"
    assert prompt.schema_ is not None and '"maxItems": 5' in json.dumps(prompt.schema_)
    parts = decompose.read(Completion(text=json.dumps({"parts": PARTS})))
    rows = [(part.name, part.checkpoint, round(part.share, 2)) for part in parts]
    assert rows == [("signature", "answers", 0.33), ("refusal", "answers", 0.67), ("check", "end", 1.0)]


@pytest.mark.parametrize("text", ["", "{", "}{", "null", "{}", "parts: 3", '{"parts": null}', "\0", *(
    json.dumps({"parts": parts}) for parts in (
        PARTS[:2], PARTS * 2, [PARTS[0]] * 3, [{**PARTS[0], "goal": " "}, *PARTS[1:]], "three", [1, 2, 3],
        [{**PARTS[0], "more": 1}, *PARTS[1:]]))])  # fmt: skip
def test_what_is_no_list_of_parts_is_malformed(text):
    assert isinstance(decompose.read(Completion(text=text)), Malformed)


def test_a_part_ends_by_its_checkpoint_its_turns_or_attempts_and_the_last_one_with_the_search():
    progress = Progress(GENERIC, turns=20)
    assert progress.holds(Reached(suite=True)) and not progress.holds(Reached())
    progress.advance(0, completed=True)
    assert progress.now.name == "write-initial-solution" and progress.holds(Reached(answers=True))
    assert not progress.overdue(8), "a part that was never tried cannot be late"
    progress.attempt()
    assert progress.overdue(8) and not progress.overdue(7)
    for _ in range(ATTEMPTS - 1):
        progress.attempt()
    assert progress.overdue(0)
    rows = progress.advance(8, completed=False).model_dump()
    assert rows == {"name": "write-initial-solution", "status": "failed", "turns": 8, "attempts": 3}
    assert progress.holds(Reached(tests=True))
    progress = Progress(GENERIC, turns=20)
    progress.advance(0, completed=True)
    rows = [one.status for one in progress.all_ended(5, completed=False)]
    assert rows == ["completed", "failed", "skipped", "skipped"]
    progress.advance(5, completed=True)
    progress.advance(9, completed=True)
    progress.attempt()
    assert not progress.overdue(99) and not progress.holds(Reached(suite=True, answers=True, tests=True))
    assert [one.status for one in progress.all_ended(12, completed=True)] == ["completed"] * 4


async def test_every_trial_of_hc_walks_the_generic_parts_and_one_that_finds_nothing_has_failed_them():
    bench = Bench(scripted(WRONG, BROKEN, RIGHT))
    outcome = await bench.solve("hc")
    assert {prompt.role for prompt in bench.prompts} == {"tester", "solver"}
    assert [part.name for part in outcome.subtasks] == [part.name for part in GENERIC]
    changes = [event for event in bench.log.events if isinstance(event, SubtaskChange)]
    assert changes[0].ended == "understand-requirements" and changes[0].subtask == "write-initial-solution"
    assert (await Bench(scripted(RIGHT)).solve("raw")).subtasks == ()
    outcome = await Bench(scripted(BROKEN)).solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=2))
    told = {part.name: part.status for part in outcome.subtasks}
    assert told["write-initial-solution"] == "failed" and told["final-validation"] == "skipped"


def decomposed(parts):
    def answer(prompt):
        return json.dumps({"parts": parts}) if prompt.role == "decomposer" else scripted(WRONG, BROKEN)(prompt)

    return Bench(answer)


async def test_a_models_parts_are_told_to_every_fresh_candidate_and_ended_one_after_another():
    bench = decomposed(PARTS)
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, decompose="model"), tokens=20_000)
    assert sum(prompt.role == "decomposer" for prompt in bench.prompts) == 1
    assert [part.name for part in outcome.subtasks] == ["signature", "refusal", "check"]
    fresh = [prompt.model_dump_json() for prompt in bench.prompts if prompt.purpose == "candidate"]
    assert all(part["goal"] in fresh[0] for part in PARTS) and "Raise ValueError." in fresh[0]


async def test_nonsense_for_parts_leaves_the_generic_four_and_is_paid():
    bench = decomposed("no")
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, decompose="model", max_rounds=1))
    (told,) = bench.log.actions("decompose")
    assert told.detail["malformed"] and [part.name for part in outcome.subtasks] == [part.name for part in GENERIC]
    plain = await decomposed("no").solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=1))
    assert outcome.prompt_tokens > plain.prompt_tokens
