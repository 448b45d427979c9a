"""Parses ``task.toml`` of Harbor's task format, in its old spelling (``version = "1.0"``, ``memory = "2G"``,
``allow_internet``) and its current one (``schema_version = "1.x"``, ``memory_mb``, ``network_mode``).

``parse_task_toml`` is pure: it opens no files, and returns all mistakes of a task's author as faults instead of
raising, so that one bad task never hides another. Unknown keys are tolerated, as in Harbor, but reported."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from hc_ray.tasks.task_sections import (
    AgentSection,
    Artifact,
    EnvironmentSection,
    Fault,
    ParsedTaskToml,
    Section,
    SolutionSection,
    TaskSection,
    VerifierSection,
)

_TABLES: dict[str, type[Section]] = {
    "task": TaskSection, "environment": EnvironmentSection, "agent": AgentSection, "verifier": VerifierSection,
    "solution": SolutionSection,
}  # fmt: skip
_BESIDE = ("schema_version", "version", "source", "metadata", "artifacts", "steps", "multi_step_reward_strategy")
_OLD = {"environment": ("memory", "storage", "allow_internet")}


def parse_task_toml(text: str) -> ParsedTaskToml:
    """Parse a task.toml; never raises. All faults are in ``faults``, including syntax errors with their line."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        fault = Fault(field="task.toml", says=f"is not valid TOML: {error}", remedy="correct the line")
        return ParsedTaskToml(faults=(fault,))
    faults: list[Fault] = []
    # Harbor ignores the version; datasets with "2.0" differ only in their metadata.
    version = data.get("schema_version", data.get("version"))
    if version is not None and not isinstance(version, str):
        remedy = 'write schema_version = "1.1"'
        faults.append(Fault(field="schema_version", says=f"{version!r} is not a string", remedy=remedy))
    metadata = data.get("metadata", {})
    if not isinstance(metadata, dict):
        faults.append(Fault(field="metadata", says="is not a table", remedy="write it as [metadata]"))
        metadata = {}
    multi_step = bool(data.get("steps"))
    if multi_step:
        faults.append(
            Fault(field="steps", says="multi-step tasks are not supported", remedy="split it into one task per step")
        )
    sections: dict[str, Any] = {name: _section(kind, name, data, faults) for name, kind in _TABLES.items()}
    artifacts = _artifacts(data, faults)
    return ParsedTaskToml(**sections, metadata=metadata, artifacts=artifacts, multi_step=multi_step,
                          faults=tuple(faults), unknown=tuple(_unknown(data)))  # fmt: skip


def _unknown(data: dict[str, Any]) -> Iterator[Fault]:
    """Unknown tables and keys: misspelled, or of a newer version of the format."""
    known: dict[str, tuple[str, ...]] = {"": (*_TABLES, *_BESIDE)}
    known |= {name: (*kind.model_fields, *_OLD.get(name, ())) for name, kind in _TABLES.items()}
    for table, keys in known.items():
        given = data.get(table, {}) if table else data
        for key in given if isinstance(given, dict) else ():
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1, 0.75)
                remedy = f"did you mean {near[0]}?" if near else "remove it, or check its spelling"
                field = f"{table}.{key}" if table else key
                yield Fault(field=field, says="is unknown to hc-ray, which ignores it", remedy=remedy)


def _artifacts(data: dict[str, Any], faults: list[Fault]) -> tuple[Artifact, ...]:
    try:
        return tuple(TypeAdapter(list[Artifact]).validate_python(data.get("artifacts", [])))
    except ValidationError as error:
        remedy = 'write a list of paths, or of tables with a "source"'
        faults += [Fault(field="artifacts", says=_says(one), remedy=remedy) for one in error.errors(include_url=False)]
        return ()


def _section(kind: type[Section], name: str, data: dict[str, Any], faults: list[Fault]) -> Section:
    """Validate one table; appends its faults to the list."""
    table = data.get(name, {})
    if not isinstance(table, dict):
        faults.append(Fault(field=name, says="is not a table", remedy=f"write it as [{name}]"))
        return kind()
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            where = ".".join([name, *(str(part) for part in problem["loc"] if part not in ("str", "int"))])
            faults.append(Fault(field=where, says=_says(problem), remedy=_remedy(kind, problem["loc"])))
        return kind()


def _says(problem: Mapping[str, Any]) -> str:
    says = str(problem["msg"]).removeprefix("Value error, ").replace("Input should", "it should")
    return says if isinstance(problem["input"], dict) else f"{problem['input']!r} is not allowed: {says}"


_KINDS: dict[Any, str] = {str: "a string", int: "a whole number", float: "a number", bool: "true or false",
                          dict: "a table", list: "a list", tuple: "a list"}  # fmt: skip


def _remedy(kind: type[Section], location: tuple[int | str, ...]) -> str:
    """What to write instead, by the field's type."""
    field = kind.model_fields.get(str(location[0])) if location else None
    if field is None:
        return "correct the table, or remove the key"
    return f"use {' or '.join(dict.fromkeys(_kinds(field.annotation)))}, or remove the key"


def _kinds(annotation: Any) -> Iterator[str]:
    """The TOML types that an annotation allows."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        yield from (f'"{part}"' for part in parts)
    elif (word := _KINDS.get(origin or annotation)) is not None:
        yield word
    else:  # a union, or an annotated type
        for part in parts:
            yield from _kinds(part)
