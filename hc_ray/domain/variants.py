"""The configs of one sweep: named ones (``configs``) and combinations of values (``grid``) over one file's settings."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from hc_ray.domain.value import canonical_json, changed, flattened

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig

AXES = ("solver", "budget", "engine", "roles")
"""What the configs of a sweep may differ in. They share everything else, so that they can be compared."""
_SHOWN = 40
"""Characters of a value in a label."""
_TOLD = 4
"""Values in a label of configs of several sweeps."""


class Variant(NamedTuple):
    """One config of a sweep, before anything is settled by a model's profile."""

    name: str
    """As under ``configs``, then the values of the grid; empty for the only config of a sweep."""
    changes: dict[str, Any]
    """Dotted key → value: what the file's own settings are changed in."""
    data: dict[str, Any]
    """All that is set."""

    def validated(self, config: "SweepConfig") -> "SweepConfig":
        """A config of its own. Raises ``pydantic.ValidationError``."""
        return type(config).model_validate(self.data)


def variants(config: "SweepConfig") -> tuple[Variant, ...]:
    """Every config of a sweep, in the order of the file, the grid's last key fastest. What nobody set stays unset."""
    given = config.model_dump(exclude_unset=True, exclude={"configs", "grid"})
    named = [({key: value for key, value in one.items() if key != "name"}, one["name"]) for one in config.configs]
    made = []
    for changes, name in named or [({}, "")]:
        for values in product(*config.grid.values()):
            cell = dict(zip(config.grid, values, strict=True))
            whole = flattened(changes | cell)
            made.append(Variant(" ".join(filter(None, (name, label(cell)))), whole, changed(given, whole)))
    return tuple(made)


def label(settings: Mapping[str, Any]) -> str:
    """``samples=8, selector=mbr``: keys by their last part where that names one of them alone."""
    last = Counter(key.rpartition(".")[2] for key in settings)
    short = {key: name if last[name := key.rpartition(".")[2]] == 1 else key for key in settings}
    return ", ".join(f"{short[key]}={_shown(value)}" for key, value in settings.items())


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value else canonical_json(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def labels(settings: Sequence[Mapping[str, Any]], changes: Collection[str] = ()) -> list[str]:
    """Of each of several configs (dotted key → value) the values that not all of them share; empty where they are
    equal. ``changes``: the keys, or beginnings of keys, that are looked at; none: all that each has, of which the first
    few are told."""

    def differs(key: str) -> bool:
        looked = any(f"{key}.".startswith(f"{one}.") for one in changes) or not (
            changes or any(key not in one for one in settings)
        )
        return looked and len({canonical_json(one.get(key)) for one in settings}) > 1

    keys = [key for key in dict.fromkeys(key for one in settings for key in one) if differs(key)]
    more = [] if changes else keys[_TOLD:]
    shown = [label({key: one[key] for key in keys if key in one and key not in more}) for one in settings]
    return [f"{one}, …" if more else one for one in shown]


def titled(name: str, label: str) -> str:
    """A config for a reader: ``wide: samples=8``."""
    return f"{name}: {label}" if name and label and name != label else name or label


def named_configs(configs: Any, fields: Collection[str]) -> Any:
    """``configs`` with dotted keys. ``fields``: those of the whole config. Raises ``ValueError``."""
    if not isinstance(configs, list | tuple) or not all(isinstance(one, Mapping) for one in configs):
        raise ValueError("must be a list of configs, such as [{name: wide, solver.samples: 8}, {name: base}]")
    found = [flattened(one) for one in configs]
    names = [one.get("name") for one in found]
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("each config needs a name, such as {name: wide, solver.samples: 8}")
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"two configs have the name {twice[0]}")
    for one in found:
        _may_vary(one.keys() - {"name"}, fields)
    return found


def value_lists(grid: Any, fields: Collection[str]) -> Any:
    """``grid`` with dotted keys. Raises ``ValueError``."""
    found = flattened(grid) if isinstance(grid, Mapping) else {"": grid}
    for key, values in found.items():
        if not isinstance(values, list | tuple) or not values or not key:
            raise ValueError(f"{key or 'every setting'} needs a list of values, such as solver.samples: [2, 4]")
    _may_vary(found, fields)
    return found


def _may_vary(keys: Collection[str], fields: Collection[str]) -> None:
    for key in sorted(keys):
        if (top := key.partition(".")[0]) in fields and top not in AXES:
            raise ValueError(f"{key} cannot be varied: configs of one sweep may differ in {', '.join(AXES)} only, and "
                             "share all else, so that they can be compared")  # fmt: skip
