"""Answers of the scripted engine for the task that ``tests.fakes.tasks`` makes by default: a function that adds."""

import json

from hc_ray.domain.prompt import Prompt


def adds(prompt: Prompt) -> str:
    """A model that knows how: the solver's answers are right, the tester's half."""
    if prompt.role == "solver":
        body = "\n    return a + b\n"
        return body if prompt.text is not None else f"```python\ndef add(a, b):{body}```\n"
    return "assert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(5, 5) == 11\n"


def wavers(prompt: Prompt) -> str:
    """A model that is right for two seeds in three."""
    if prompt.role == "solver" and prompt.seed % 3 == 0:
        body = "\n    return a - b\n"
        return body if prompt.text is not None else f"```python\ndef add(a, b):{body}```\n"
    return adds(prompt)


HINT = "Read the whole task before you answer."


def has_a_hint(prompt: Prompt) -> str:
    return json.dumps({"knob": "solver.hint", "value": HINT, "reason": "It does not read to the end of the task."})
