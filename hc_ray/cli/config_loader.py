"""Loads one YAML file into one ``SweepConfig``; flags override the file, and ``--set`` can set any field.

Errors take one or two lines and name the file, the line, the field and the allowed values."""

import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hc_ray.cli.config_keys import is_known, unknown_key
from hc_ray.domain.config import TESTERS, EngineConfig, RoleName, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.value import changed, counted, digest_of
from hc_ray.domain.variants import variants
from hc_ray.machine.paths import configs_dir

Loc = tuple[str | int, ...]
Places = dict[Loc, str]
"""Field → where it was set, as the prefix of an error message: ``mine.yaml:3: ``, ``--model: ``; ``()`` is the root."""


class Flag(typing.NamedTuple):
    """A command line flag that sets one field."""

    name: str
    """As typed: ``--model``."""
    key: str
    """The field: ``engine.model``."""
    value: Any


SET = "--set"
"""The flag that sets any field."""
_UNREADABLE = (yaml.YAMLError, ValueError, RecursionError)
"""What the YAML parser raises; the last two for invalid dates and for nesting that is too deep."""


def setting(text: str) -> Flag:
    """Parse ``KEY=VALUE``: a dotted key and a YAML value. Raises ``ConfigError``, which suggests the closest known key
    for an unknown one."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"{SET} {text}: expected KEY=VALUE, for example {SET} solver.samples=8")
    if not is_known(key):
        raise ConfigError(f"{SET}: {unknown_key(key)}")
    if not value.strip():  # as of a shell's variable that is not set
        raise ConfigError(f"{SET} {key}: there is no value; write null for none, or \"{key}=''\" for an empty text")
    try:
        return Flag(SET, key, yaml.safe_load(value))
    except _UNREADABLE as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{SET} {key}: {value!r} is not valid YAML: {problem}") from None


def load_config(
    config: str | Path | None = None, flags: Sequence[Flag] = (), *, base: Mapping[str, Any] | None = None
) -> SweepConfig:
    """The settings of a run. ``config`` is a file or the name of a shipped one; without it, start from ``base``
    (settings as data) or the defaults. Raises ``ConfigError``."""
    path = find_config(config) if config is not None else None
    data, places = dict(base or {}), Places({(): ""})
    if path is not None:
        data, places = _read(path)
    alone = data
    given: dict[str, str] = {}
    if any(flag.key.startswith("engine.") and flag.name != SET for flag in flags):
        # The flag means every role; an engine that the file gives to a role would silently override it.
        data = {name: value for name, value in data.items() if name != "roles"}
    for flag in flags:
        if flag.name == SET and given.get(flag.key, SET) != SET:
            raise ConfigError(f"{SET} {flag.key}: {given[flag.key]} sets the same field; use only one of them")
        data = changed(data, {flag.key: flag.value})
        given[flag.key] = flag.name
        loc = ("grid",) if flag.key.startswith("grid.") else tuple(flag.key.split("."))
        places = {known: told for known, told in places.items() if known[: len(loc)] != loc}
        places[loc] = f"{SET} " if flag.name == SET else f"{flag.name}: "
    try:
        found = SweepConfig.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # Pydantic also reports a list as too short if one of its items is invalid.
        faults = {problem["loc"][:-1] for problem in problems}
        problems = [one for one in problems if one["type"] != "too_short" or one["loc"] not in faults]
        # Report the error that comes first in the file.
        order = list(places)
        problems.sort(key=lambda problem: order.index(_nearest(problem["loc"], places)))
        where, words = _nearest(problems[0]["loc"], places), _words(problems[0])
        if places[where].startswith("--") and not places[where].startswith(SET):  # the flag names the field already
            words = words.removeprefix(f"{dotted(where)}: ")
        if not where and path and _stands(alone):
            places[where] = f"{path} with these flags: "
        message = places[where] + words
        if len(problems) > 1:
            message += f"\n(and {counted(len(problems) - 1, 'more error')} in this config)"
        raise ConfigError(message) from None
    for variant in variants(found):
        try:
            variant.validated(found)
        except ValidationError as error:
            place = places[_nearest(("grid",) if found.grid else ("configs",), places)]
            words = _words(error.errors(include_url=False)[0])
            raise ConfigError(f"{place}config {variant.name}: {words}") from None
    return found


def _stands(settings: Mapping[str, Any]) -> bool:
    try:
        return bool(SweepConfig.model_validate(settings))
    except ValidationError:
        return False


def _nearest(loc: Loc, places: Places) -> Loc:
    """The location itself, or its closest ancestor in ``places``."""
    return next(loc[:end] for end in range(len(loc), -1, -1) if loc[:end] in places)


def _tester(name: str, local: EngineConfig) -> EngineConfig:
    """The engine of a tester: ``local`` (the one in the settings), ``module:function`` (scripted), ``MODEL@URL`` (any
    compatible server), or else a catalogue model or a path to weights."""
    if name == "local":
        return local
    model, at, url = name.partition("@")
    if at and url.startswith(("http://", "https://")):
        return EngineConfig(kind="openai", base_url=url, model=model)
    if ":" in name and not name.endswith(".gguf"):
        return EngineConfig(kind="scripted", script=name)
    return EngineConfig(kind="embedded", model=name)


def with_testers(config: SweepConfig, names: str) -> SweepConfig:
    """The settings with the testers in ``names``, a comma-separated list. Raises ``ConfigError`` unless it names 1 to
    ``len(TESTERS)``."""
    local = config.roles.get("tester", config.engine)
    wanted = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    if not 1 <= len(wanted) <= len(TESTERS):
        raise ConfigError(f"--tester {names}: name 1 to {len(TESTERS)} testers")
    others: dict[RoleName, EngineConfig] = {role: one for role, one in config.roles.items() if role not in TESTERS}
    testers = dict(zip(TESTERS, (_tester(name, local) for name in wanted), strict=False))
    return config.model_copy(update={"roles": {**others, **testers}})


def exported_config(file: str) -> dict[str, Any]:
    """The document that ``export best`` or a climb wrote, with its ``settings`` as data. Raises ``ConfigError`` for any
    other file, and for one modified since its export."""
    document, _ = _read(Path(file))
    settings = document.get("settings")
    if not isinstance(settings, dict) or "sha256" not in document:
        raise ConfigError(f"--from {file}: not a file written by `hc-ray export best`")
    if digest_of({name: value for name, value in document.items() if name != "sha256"}) != document["sha256"]:
        raise ConfigError(f"--from {file}: modified since its export (SHA-256 differs); change settings with --set")
    return document | {"settings": changed({}, settings)}


def find_config(config: str | Path) -> Path:
    """The path of a config file, or of a shipped one by name (``demo``, ``demo.yaml``, ``configs/demo.yaml``)."""
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


def _read(path: Path) -> tuple[dict[str, Any], Places]:
    """The file's data, and the line (from 1) of every field."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', 'not valid UTF-8')}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise ConfigError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except _UNREADABLE as error:
        raise ConfigError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    places: Places = {(): f"{path}: "}
    if node is None:
        return {}, places
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: a config must be a mapping of fields, such as `dataset: starter`")
    try:
        _collect(node, (), places, path)
    except RecursionError:
        raise ConfigError(f"{path}: an alias (*NAME) refers to a node that contains it") from None
    return data, places


def _collect(node: yaml.Node, at: Loc, places: Places, path: Path) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            loc, place = (*at, key.value), f"{path}:{key.start_mark.line + 1}: "
            if loc in places:
                raise ConfigError(f"{place}duplicate key {dotted(loc)} (first given in {places[loc].rstrip(': ')})")
            places[loc] = place
            _collect(value, loc, places, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            places[(*at, index)] = f"{path}:{value.start_mark.line + 1}: "
            _collect(value, (*at, index), places, path)


def _words(problem: Mapping[str, Any]) -> str:
    loc: Loc = problem["loc"]
    value = problem.get("input")
    if problem["type"] == "extra_forbidden":
        return unknown_key(dotted(loc))
    if problem["type"] == "value_error":
        inside = f"{dotted(loc)}: " if loc else ""
        return inside + str(problem["msg"]).removeprefix("Value error, ")
    if loc and loc[-1] == "[key]":
        loc = loc[:-1]
        return f"{dotted(loc[:-1])}: unknown name {loc[-1]!r}; allowed: {problem.get('ctx', {}).get('expected')}"
    got = "a mapping" if isinstance(value, dict) else repr(value)
    if len(got) > 60:
        got = got[:57] + "..."
    if problem["type"] == "literal_error":
        names = problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        near = difflib.get_close_matches(str(value), names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{dotted(loc)}: {got} is not allowed{hint}; allowed: {', '.join(names)}"
    wanted = {
        "model_type": "it should be a mapping of fields",
        "tuple_type": "it should be a list",
        "string_too_short": "it must not be empty",
    }
    message = wanted.get(problem["type"]) or str(problem["msg"]).replace("Input should", "it should")
    return f"{dotted(loc)}: {got} is not allowed: {message}"


def dotted(loc: Loc) -> str:
    return ".".join(map(str, loc))
