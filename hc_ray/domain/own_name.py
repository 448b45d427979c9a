"""What a user's own agent or selector is named by."""

import re
from typing import Any

from pydantic import ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import PydanticKnownError

OWN = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)(?:@(?P<digest>[0-9a-f]{12}))?")
"""Such as ``my_agents:Mine``; the plan of a sweep adds the digest of its source (``machine.own_code``)."""


def or_own(name: Any, known: ValidatorFunctionWrapHandler) -> Any:
    """A name that ``known`` knows, or one of the user's own. What is refused is told both."""
    if isinstance(name, str) and OWN.fullmatch(name):
        return name
    try:
        return known(name)
    except ValidationError as fault:
        expected = f"{fault.errors()[0]['ctx']['expected']} or your own MODULE:NAME"
        raise PydanticKnownError("literal_error", {"expected": expected}) from None
