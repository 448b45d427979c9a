"""A profile follows from what was measured, in situations whose own right results pass their checks."""

import ast

from hc_ray.agent.asking_forms import measure
from hc_ray.agent.calibration import STOPS, file_questions, load_items, profile_of, told_apart, ways
from hc_ray.engines.scripted import ScriptedModel
from tests.fakes.folder_place import FolderPlace

ITEMS = {item.name: item for item in load_items()}


def _right(prompt):
    asked = prompt.text if prompt.text is not None else prompt.messages[-1].content
    return next(item.right["solution.py"] for item in ITEMS.values() if f"`{item.name}(" in asked)


def right_in_chat(prompt):
    """Solves in chat, and only when asked warmly; its completions run on with a line that fails."""
    if prompt.text is None:
        return f"```python\n{_right(prompt)}```" if prompt.temperature > 0 else "no idea"
    return "\n    return None\n"


def runs_on(prompt):
    """Solves in the completion form, then runs on into a line that ends the program with an error."""
    body = "".join(line + "\n" for line in _right(prompt).splitlines()[1:])
    return "\n" + body + "\nprint(undefined_name)\n" if prompt.text is not None else "no idea"


async def measured(script, temperatures, *names):
    tried, items = ways(temperatures), [ITEMS[name] for name in names or ITEMS]
    place = FolderPlace()
    figures = await measure(ScriptedModel(script), "files", [str(way) for way in tried], items, place,
                            file_questions(tried, 1))  # fmt: skip
    assert all(sandbox.closed for sandbox in place.made)
    return {one.form: (one.right, one.answers) for one in figures}, figures, profile_of(figures, tried, "today")


async def test_every_right_result_passes_its_check_and_the_better_form_wins():
    counts, figures, profile = await measured(right_in_chat, (0.0, 0.5))
    assert counts["chat T 0.5"] == (12, 12) and counts["chat T 0"] == (0, 12) and counts["completion T 0.5"] == (0, 12)
    assert (profile.form, profile.temperature_best_single) == ("chat", 0.5)
    assert profile.measured.startswith("today; chat T 0: 0/12") and told_apart(figures)


async def test_stop_rules_are_kept_where_they_help_and_few_answers_tell_no_forms_apart():
    counts, figures, profile = await measured(runs_on, (0.0,), "cube", "smallest")
    assert profile.form == profile.test_form == "completion" and profile.stop == {"completion": STOPS}
    assert (counts["completion T 0"], counts["completion with stops T 0"]) == ((0, 2), (2, 2))
    assert not told_apart(figures) and "bias_to_agreement" not in profile.model_fields_set


def test_items_state_a_signature_and_a_file_and_are_python():
    assert len(ITEMS) >= 12
    for item in ITEMS.values():
        assert f"`{item.name}(" in item.instruction and "`solution.py`" in item.instruction
        ast.parse(item.check)
        ast.parse(item.right["solution.py"])
