"""The base of every value that moves between stages, and the one way they are hashed."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import PydanticKnownError, to_json


class Value(BaseModel):
    """An immutable record: compared by content, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DescribedValue(Value):
    """A value whose fields say at run time what the text below each says: as ``FieldInfo.description``."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def spelled(text: str) -> str:
    """The text as UTF-8 and JSON can hold it: a lone surrogate, such as Python reads a byte of a file's name that is no
    UTF-8 as, is spelled out (``\\udcff``)."""
    return text.encode(errors="backslashreplace").decode()


def unstyled(text: str) -> str:
    """The text without a terminal's escape sequences (ECMA-48): colours, movements of the cursor, links, titles."""
    return _ESCAPES.sub("", text) if "\x1b" in text else text


_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|\Z)|\][^\x07\x1b]*(?:\x07|\x1b\\|\Z)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"
)
Shown = Annotated[str, AfterValidator(spelled)]
"""Text in which a program or a server has a say: it is stored, and told to models, whatever it holds."""
Printed = Annotated[Shown, AfterValidator(unstyled)]
"""What programs wrote for a terminal, as models are told it."""


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


def canonical_json(data: Any) -> str:
    """JSON with sorted keys and no white space: the text that digests are taken of."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def readable_json(data: Any) -> bytes:
    """Indented JSON in UTF-8, for files: ten times as fast as the standard library's, which indents in Python."""
    return to_json(data, indent=1)


def digest_of(data: Any) -> str:
    """SHA-256 (hex) of a pydantic model or of plain JSON data."""
    plain = data.model_dump(mode="json") if isinstance(data, BaseModel) else data
    return hashlib.sha256(canonical_json(plain).encode(errors="surrogatepass")).hexdigest()


def flattened(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; of two values for a key the later one counts."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flattened(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return flat


def changed(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested data with other values for some dotted keys; what is no mapping on the way to one is replaced."""
    made = dict(data)
    for key, value in changes.items():
        first, _, rest = key.partition(".")
        inner = made.get(first)
        made[first] = changed(inner if isinstance(inner, Mapping) else {}, {rest: value}) if rest else value
    return made


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
