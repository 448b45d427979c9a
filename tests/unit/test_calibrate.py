"""A profile follows from what was measured, on items whose own references pass their checks."""

import ast

from hc_ray.agent.calibration import STOPS, Figure, load_items, measure_profile
from hc_ray.domain.prompt import Prompt
from hc_ray.engines.scripted import ScriptedModel
from tests.fakes.folder_place import FolderPlace

ITEMS = {item.name: item for item in load_items()}


def _item(prompt: Prompt):
    asked = prompt.text if prompt.text is not None else prompt.messages[-1].content
    return next(item for item in ITEMS.values() if f"`{item.name}(" in asked)


def _body(reference: str) -> str:
    return "".join(line + "\n" for line in reference.splitlines()[1:])


def right_in_chat(prompt: Prompt) -> str:
    """Solves in chat, and only when asked warmly; its completions run on with a line that fails."""
    item = _item(prompt)
    if prompt.text is None:
        return f"```python\n{item.reference}```" if prompt.temperature > 0 else "no idea"
    return "\n    return None\n"


def runs_on(prompt: Prompt) -> str:
    """Solves in the completion form, then runs on into a line that ends the program with an error."""
    item = _item(prompt)
    return "\n" + _body(item.reference) + "\nprint(undefined_name)\n" if prompt.text is not None else "no idea"


async def test_every_reference_passes_its_check_and_the_better_form_wins() -> None:
    place = FolderPlace()
    found = await measure_profile(
        ScriptedModel(right_in_chat),
        list(ITEMS.values()),
        place=place,
        temperatures=(0.0, 0.5),
        samples=1,
        note="today",
    )
    rates = {(one.form, one.temperature, one.stops): one.rate for one in found.figures}
    assert rates["chat", 0.5, False] == 1.0 and rates["chat", 0.0, False] == 0.0
    assert rates["completion", 0.5, False] == 0.0
    assert (found.profile.form, found.profile.temperature_best_single) == ("chat", 0.5)
    assert found.profile.measured.startswith("today; chat T 0: 0/12") and found.told_apart
    assert place.made[0].closed


async def test_two_forms_that_differ_by_one_answer_are_not_told_apart_and_each_figure_is_told_as_it_comes() -> None:
    told: list[Figure] = []
    found = await measure_profile(
        ScriptedModel(runs_on),
        [ITEMS["cube"], ITEMS["smallest"]],
        place=FolderPlace(),
        temperatures=(0.0,),
        samples=1,
        tell=told.append,
    )
    assert not found.told_apart and tuple(told) == found.figures


async def test_stop_rules_are_kept_where_they_help() -> None:
    items = [ITEMS["cube"], ITEMS["smallest"]]
    found = await measure_profile(ScriptedModel(runs_on), items, place=FolderPlace(), temperatures=(0.0,), samples=1)
    assert found.profile.form == "completion" and found.profile.stop == {"completion": STOPS}
    by_stops = {one.stops: one.passed for one in found.figures if one.form == "completion"}
    assert by_stops == {False: 0, True: 2}
    assert found.profile.test_form == "completion" and "bias_to_agreement" not in found.profile.model_fields_set


def test_items_state_a_signature_and_a_file_and_are_python() -> None:
    assert len(ITEMS) >= 12
    for item in ITEMS.values():
        assert f"`{item.name}(" in item.instruction and "`solution.py`" in item.instruction
        ast.parse(item.check)
        ast.parse(item.reference)
