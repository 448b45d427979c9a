"""The keys that a config has, and the one that was most likely meant."""

import difflib
import functools
import typing
from collections.abc import Iterator

from pydantic import BaseModel

from hc_ray.domain.config import SweepConfig

Settings = type[BaseModel]


@functools.cache
def known_keys() -> dict[str, Settings | None]:
    """Every key that ``--set`` takes, dotted → the class of the settings below it, if there are any."""
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
    """``grid.`` goes before any key."""
    return key.removeprefix("grid.") in known_keys()


def unknown_key(key: str) -> str:
    """What to say of a key that is none: the one that was most likely meant, else those that stand there."""
    if near := _nearest(key):
        return f"unknown key {key}; did you mean {near}?"
    owner = known_keys().get(key.rpartition(".")[0]) or SweepConfig
    return f"unknown key {key}; allowed: {', '.join(owner.model_fields)}"


def _nearest(key: str) -> str | None:
    """The known key that was most likely meant: one that ends so, else one that reads nearly so."""
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
