import json

import pytest

from hc_ray.domain.config import SolverConfig
from hc_ray.domain.prompt import Completion, Malformed
from hc_ray.search import decompose
from hc_ray.search.decompose import GENERIC
from tests.fakes.trial import BROKEN, WRONG, Bench, scripted

PARTS = [{"name": "signature", "goal": "Write the function with its name.", "hint": ""},
         {"name": "refusal", "goal": "Refuse what is negative.", "hint": "Raise ValueError."},
         {"name": "check", "goal": "Look at the example once more.", "hint": ""}]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{", "}{", "null", "{}", "parts: 3", '{"parts": null}', "\0", *(
    json.dumps({"parts": parts}) for parts in (
        PARTS[:2], PARTS * 2, [PARTS[0]] * 3, [{**PARTS[0], "goal": " "}, *PARTS[1:]], "three", [1, 2, 3],
        [{"name": "signature", "more": 1}, *PARTS[1:]]))])  # fmt: skip
def test_what_is_no_list_of_parts_is_malformed(text):
    assert isinstance(decompose.read(Completion(text=text)), Malformed)


def decomposed(parts):
    def answer(prompt):
        return json.dumps({"parts": parts}) if prompt.role == "decomposer" else scripted(WRONG, BROKEN)(prompt)

    return Bench(answer)


async def test_nonsense_for_parts_leaves_the_generic_four_and_is_paid():
    bench = decomposed("no")
    outcome = await bench.solve("hc", SolverConfig(max_answer_tokens=60, decompose="model", max_rounds=1))
    (told,) = bench.log.actions("decompose")
    assert told.detail["malformed"] and [part.name for part in outcome.subtasks] == [part.name for part in GENERIC]
    plain = await decomposed("no").solve("hc", SolverConfig(max_answer_tokens=60, max_rounds=1))
    assert outcome.prompt_tokens > plain.prompt_tokens
