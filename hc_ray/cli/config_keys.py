"""The keys that a config has, and the one that was most likely meant."""

import difflib
import types
import typing
from typing import Any

from pydantic import BaseModel

from hc_ray.domain.config import SweepConfig

Loc = tuple[str | int, ...]


def known_keys(owner: type[BaseModel] = SweepConfig, above: Loc = ()) -> list[str]:
    """Every key that ``--set`` takes, dotted."""
    found = []
    for name, field in owner.model_fields.items():
        loc = (*above, name)
        found.append(dotted(loc))
        if (inner := model_at(loc)) is not None:
            found += known_keys(inner, loc)
        elif typing.get_origin(field.annotation) is dict:
            names = typing.get_args(typing.get_args(field.annotation)[0])
            for one in names:
                found.append(dotted((*loc, one)))
                if (inner := model_at((*loc, one))) is not None:
                    found += known_keys(inner, (*loc, one))
    return found


def is_known(loc: tuple[str, ...]) -> bool:
    """``grid.`` goes before any key."""
    return dotted(loc[1:] if loc[0] == "grid" and len(loc) > 1 else loc) in known_keys()


def nearest(key: str) -> str | None:
    """The known key that was most likely meant: one that ends so, else one that reads nearly so."""
    if key.startswith("grid."):
        near_to = nearest(key.removeprefix("grid."))
        return near_to and f"grid.{near_to}"
    keys = known_keys()
    ends = [known for known in keys if known.endswith(f".{key}")]
    if ends:
        return min(ends, key=len)
    near = difflib.get_close_matches(key, keys, 1, cutoff=0.6)
    if near:
        return near[0]
    last = {known.rpartition(".")[2]: known for known in reversed(keys)}
    near = difflib.get_close_matches(key.rpartition(".")[2], list(last), 1, cutoff=0.75)
    return last[near[0]] if near else None


def model_at(loc: Loc) -> type[BaseModel] | None:
    """The settings class that holds the fields below ``loc``."""
    here: Any = SweepConfig
    for part in loc:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = here.model_fields.get(str(part))
            if field is None:
                return None
            here = _without_none(field.annotation)
        elif typing.get_origin(here) is dict:
            here = typing.get_args(here)[1]
        else:
            return None
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    return next(one for one in typing.get_args(annotation) if one is not type(None))


def dotted(loc: Loc) -> str:
    return ".".join(str(part) for part in loc)
