"""The keys of a config, and suggestions for misspelled ones."""

import difflib
import functools
import typing
from collections.abc import Iterator

from pydantic import BaseModel

from hc_ray.domain.config import SweepConfig

Settings = type[BaseModel]


@functools.cache
def known_keys() -> dict[str, Settings | None]:
    """Every dotted key that ``--set`` accepts → the settings class below it, or None for a plain value."""
    return dict(_below(SweepConfig))


def _below(owner: Settings, above: str = "") -> Iterator[tuple[str, Settings | None]]:
    for name, field in owner.model_fields.items():
        kind, keys = field.annotation, [f"{above}{name}"]
        if typing.get_origin(kind) is dict:
            yield keys[0], None
            names, kind = typing.get_args(kind)
            keys = [f"{keys[0]}.{one}" for one in typing.get_args(names)]
        inner = [one for one in (kind, *typing.get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)]
        for key in keys:
            yield key, inner[0] if inner else None
            if inner:
                yield from _below(inner[0], f"{key}.")


def is_known(key: str) -> bool:
    """Whether ``--set`` accepts a key; any key may be prefixed with ``grid.``."""
    return key.removeprefix("grid.") in known_keys()


def unknown_key(key: str) -> str:
    """The error message for an unknown key: the closest known key, or else the keys allowed at that place."""
    if near := _nearest(key):
        return f"unknown key {key}; did you mean {near}?"
    owner = known_keys().get(key.rpartition(".")[0]) or SweepConfig
    return f"unknown key {key}; allowed: {', '.join(owner.model_fields)}"


def _nearest(key: str) -> str | None:
    """The known key that was most likely meant: one with this ending, or else one spelled similarly."""
    if key.startswith("grid."):
        near_to = _nearest(key.removeprefix("grid."))
        return near_to and f"grid.{near_to}"
    if ends := [known for known in known_keys() if known.endswith(f".{key}")]:
        return min(ends, key=len)
    if near := difflib.get_close_matches(key, known_keys(), 1, cutoff=0.6):
        return near[0]
    last = {known.rpartition(".")[2]: known for known in reversed(known_keys())}
    near = difflib.get_close_matches(key.rpartition(".")[2], last, 1, cutoff=0.75)
    return last[near[0]] if near else None
