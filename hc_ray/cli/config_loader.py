"""One YAML file → one ``SweepConfig``; flags override the file, and ``--set`` is a flag for every field.

A mistake is answered in one or two lines that name the file, the line, the field and what is allowed there."""

import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hc_ray.cli.config_keys import Loc, dotted, is_known, model_at, nearest
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.value import changed, digest_of
from hc_ray.domain.variants import variants
from hc_ray.machine.paths import configs_dir


class Flag(typing.NamedTuple):
    """A command line flag that sets one field."""

    name: str
    """As typed: ``--model``."""
    loc: tuple[str, ...]
    """The field: ``("engine", "model")``."""
    value: Any


SET = "--set"
"""The flag that sets any field."""


def setting(text: str) -> Flag:
    """``KEY=VALUE`` as a flag: a dotted key, a value as YAML reads it. Raises ``ConfigError``, with the nearest known
    key for one that is not."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"{SET} {text}: give KEY=VALUE, for instance {SET} solver.samples=8")
    loc = tuple(key.split("."))
    if not is_known(loc):
        near = nearest(key)
        hint = f"did you mean {near}?" if near else f"allowed: {', '.join(SweepConfig.model_fields)}"
        raise ConfigError(f"{SET} {key}: unknown key; {hint}")
    try:
        return Flag(SET, loc, yaml.safe_load(value))
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{SET} {key}: {value!r} is not valid YAML: {problem}") from None


def load_config(
    config: str | Path | None = None, flags: Sequence[Flag] = (), *, base: Mapping[str, Any] | None = None
) -> SweepConfig:
    """The settings of a run. ``config`` is a file, or the name of a shipped one; without one, ``base`` (settings as
    data) or all defaults. Raises ``ConfigError``."""
    path = find_config(config) if config is not None else None
    data, lines = _read(path) if path is not None else (dict(base or {}), {})
    given: dict[Loc, str] = {}
    if any(flag.loc[:1] == ("engine",) and flag.name != SET for flag in flags):
        # It means every role: an engine of its own in the file would quietly win over it.
        data.pop("roles", None)
    for flag in flags:
        if flag.name == SET and given.get(flag.loc, SET) != SET:
            raise ConfigError(f"{SET} {dotted(flag.loc)}: {given[flag.loc]} sets the same field; give only one of them")
        data = changed(data, {dotted(flag.loc): flag.value})
        given[flag.loc] = flag.name
    try:
        found = SweepConfig.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # A list is also too short where the fault is in one of its items.
        faults = {problem["loc"][:-1] for problem in problems}
        problems = [one for one in problems if one["type"] != "too_short" or one["loc"] not in faults]
        # The first in the file's own order: what a reader meets first is what the message names.
        problems.sort(key=lambda problem: _line(problem["loc"], lines) or 0)
        message = _place(problems[0]["loc"], path, lines, given) + _words(problems[0])
        if len(problems) > 1:
            message += f"\n(and {len(problems) - 1} more error{'s' if len(problems) > 2 else ''} in this config)"
        raise ConfigError(message) from None
    _check_configs(found, path, lines, given)
    return found


def _check_configs(config: SweepConfig, path: Path | None, lines: Mapping[Loc, int], given: Mapping[Loc, str]) -> None:
    """Raises ``ConfigError`` where ``configs`` and ``grid`` make something else than configs of the settings."""
    for variant in variants(config):
        try:
            variant.validated(config)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            key = dotted(problem["loc"])
            near = nearest(key) if problem["type"] == "extra_forbidden" else None
            words = f"unknown key {key}; did you mean {near}?" if near else _words(problem)
            place = _place(("grid",) if config.grid else ("configs",), path, lines, given)
            raise ConfigError(f"{place}config {variant.name}: {words}") from None


def exported_settings(file: str) -> dict[str, Any]:
    """The settings of a file that ``export best`` wrote, as data. Raises ``ConfigError`` for another file, and for one
    that was changed since."""
    document, _ = _read(Path(file))
    settings = document.get("settings")
    if not isinstance(settings, dict) or "sha256" not in document:
        raise ConfigError(f"--from {file}: not a file that `hc-ray export best` wrote")
    if digest_of({name: value for name, value in document.items() if name != "sha256"}) != document["sha256"]:
        raise ConfigError(f"--from {file}: changed since its export (its SHA-256 differs); change settings with --set")
    return changed({}, settings)


def find_config(config: str | Path) -> Path:
    """The file itself, or a shipped one by its name (``demo``, ``demo.yaml``, ``configs/demo.yaml``)."""
    path = Path(config)
    if path.is_file():
        return path
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; a config is one YAML file (to name a dataset: -p {path})")
    shipped = sorted(configs_dir().glob("*.yaml"))
    for candidate in shipped:
        if str(config) in (candidate.stem, candidate.name, f"configs/{candidate.name}"):
            return candidate
    names = ", ".join(candidate.stem for candidate in shipped) or "none"
    near = difflib.get_close_matches(path.stem, [candidate.stem for candidate in shipped], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ConfigError(f"{config}: no such config file{hint} (shipped configs: {names})")


def _read(path: Path) -> tuple[dict[str, Any], dict[Loc, int]]:
    """The file's data, and the line (from 1) of every field in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise ConfigError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    if data is None:
        return {}, {}
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}:1: a config must be a mapping of fields (such as `dataset: starter`), not a {_kind(data)}"
        )
    lines: dict[Loc, int] = {}
    if node is not None:
        _collect(node, (), lines, path)
    return data, lines


def _collect(node: yaml.Node, at: Loc, lines: dict[Loc, int], path: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            loc = (*at, key.value)
            if loc in lines:
                raise ConfigError(
                    f"{path}:{key.start_mark.line + 1}: duplicate key {dotted(loc)} (first given in line {lines[loc]})"
                )
            lines[loc] = key.start_mark.line + 1
            _collect(value, loc, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[(*at, index)] = value.start_mark.line + 1
            _collect(value, (*at, index), lines, path)


def _line(loc: Loc, lines: Mapping[Loc, int]) -> int | None:
    while loc:
        if loc in lines:
            return lines[loc]
        loc = loc[:-1]
    return None


def _place(loc: Loc, path: Path | None, lines: Mapping[Loc, int], given: Mapping[Loc, str]) -> str:
    for end in range(len(loc), 0, -1):
        if loc[:end] in given:
            name = given[loc[:end]]
            return f"{name} " if name == SET else f"{name}: "
    if loc[:1] == ("grid",) and any(known[:1] == loc[:1] for known in given):
        return f"{SET} "
    line = _line(loc, lines)
    if path is None:
        return f"{dotted(loc)}: " if loc else ""
    return f"{path}:{line}: " if line else f"{path}: "


def _kind(value: Any) -> str:
    names = {list: "list", dict: "mapping", str: "string", int: "number", float: "number", bool: "true/false"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _words(problem: Mapping[str, Any]) -> str:
    loc: Loc = problem["loc"]
    value = problem.get("input")
    if problem["type"] == "extra_forbidden":
        return _unknown_key(loc)
    if problem["type"] == "value_error":
        inside = f"{dotted(loc)}: " if loc else ""
        return inside + str(problem["msg"]).removeprefix("Value error, ")
    if loc and loc[-1] == "[key]":
        loc = loc[:-1]
        return f"{dotted(loc[:-1])}: unknown name {loc[-1]!r}; allowed: {problem.get('ctx', {}).get('expected')}"
    got = f"{value!r}" if not isinstance(value, dict | list) else f"a {_kind(value)}"
    if len(got) > 60:
        got = got[:57] + "..."
    if problem["type"] == "literal_error":
        names = [
            str(option) for option in problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        ]
        near = difflib.get_close_matches(str(value), names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{dotted(loc)}: {got} is not allowed{hint}; allowed: {', '.join(names)}"
    wanted = {"model_type": "it should be a mapping of fields", "tuple_type": "it should be a list"}
    message = wanted.get(problem["type"]) or str(problem["msg"]).replace("Input should", "it should")
    return f"{dotted(loc)}: {got} is not allowed: {message}"


def _unknown_key(loc: Loc) -> str:
    owner = model_at(loc[:-1])
    names = list(owner.model_fields) if owner else []
    near = difflib.get_close_matches(str(loc[-1]), names, 1, cutoff=0.5)
    inside = f" in {dotted(loc[:-1])}" if len(loc) > 1 else ""
    if near:
        return f"unknown key {str(loc[-1])!r}{inside}; did you mean {near[0]!r}?"
    return f"unknown key {str(loc[-1])!r}{inside}; allowed: {', '.join(names)}"
