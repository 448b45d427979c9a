"""The base class of all values passed between stages, and their hashing."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import PydanticKnownError, to_json


class Value(BaseModel):
    """An immutable record, compared by content; refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DescribedValue(Value):
    """A value whose field docstrings are available at run time as ``FieldInfo.description``."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def spelled(text: str) -> str:
    """Make a text valid for UTF-8 and JSON: spell out lone surrogates (``\\udcff``), which Python produces for bytes of
    file names that are not UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def unstyled(text: str) -> str:
    """Remove a terminal's escape sequences (ECMA-48): colours, cursor movements, links, titles."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|\][^\x07\x1b]*(?:\x07|\x1b\\|\Z)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"
)
Shown = Annotated[str, AfterValidator(spelled)]
"""Text that a program or server may determine, made valid for storage and prompts."""
Printed = Annotated[Shown, AfterValidator(unstyled)]
"""Terminal output of programs, without escape sequences, for models."""


OWN = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<attribute>[A-Za-z_]\w*)(?:@(?P<digest>[0-9a-f]{12}))?")
"""The user's own code, such as ``my_agents:Mine``; a sweep's plan adds the digest of its source
(``machine.own_code``)."""


def or_own(name: Any, known: ValidatorFunctionWrapHandler) -> Any:
    """Validate a name with ``known``, or as the user's own. Errors mention both."""
    if isinstance(name, str) and OWN.fullmatch(name):
        return name
    try:
        return known(name)
    except ValidationError as fault:
        expected = f"{fault.errors()[0]['ctx']['expected']} or your own MODULE:NAME"
        raise PydanticKnownError("literal_error", {"expected": expected}) from None


def canonical_json(data: Any) -> str:
    """JSON with sorted keys and no white space, the input of digests."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def readable_json(data: Any) -> bytes:
    """Indented JSON in UTF-8, for files; ten times as fast as the standard library, which indents in Python."""
    return to_json(data, indent=1)


def digest_of(data: Any) -> str:
    """SHA-256 (hex) of a pydantic model or of plain JSON data."""
    plain = data.model_dump(mode="json") if isinstance(data, BaseModel) else data
    return hashlib.sha256(canonical_json(plain).encode(errors="surrogatepass")).hexdigest()


def flattened(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten nested mappings to dotted keys; for duplicate keys, the later value wins."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flattened(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return flat


def changed(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested data with new values for some dotted keys; replaces non-mappings on the way to a key."""
    made = dict(data)
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        inner = made.get(first)
        made[first] = changed(inner if isinstance(inner, Mapping) else {}, {rest: value}) if rest else value
    return made


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
