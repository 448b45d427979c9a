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
"""The most characters of a value in a label."""
_TOLD = 4
"""The most values in a label of configs from several sweeps."""


class Variant(NamedTuple):
    """One config of a sweep, before a model's profile fills it in."""

    name: str
    """Its name under ``configs``, then the grid's values; empty for a sweep's only config."""
    changes: dict[str, Any]
    """Dotted key → value: the changes to the file's settings."""
    data: dict[str, Any]
    """All settings."""

    def validated(self, config: "SweepConfig") -> "SweepConfig":
        """As a complete config. Raises ``pydantic.ValidationError``."""
        return type(config).model_validate(self.data)


def variants(config: "SweepConfig") -> tuple[Variant, ...]:
    """Every config of a sweep, in the file's order, with the grid's last key varying fastest. Unset fields stay
    unset."""
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
    """``samples=8, selector=mbr``, with keys shortened to their last part if that is unambiguous."""
    last = Counter(key.rpartition(".")[2] for key in settings)
    short = {key: name if last[name := key.rpartition(".")[2]] == 1 else key for key in settings}
    return ", ".join(f"{short[key]}={_shown(value)}" for key, value in settings.items())


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) and value else canonical_json(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def labels(settings: Sequence[Mapping[str, Any]], changes: Collection[str] = ()) -> list[str]:
    """Labels of configs (dotted key → value) with the values in which they differ; empty if they are equal.
    ``changes``: the keys, or prefixes of keys, to compare; if empty, all keys, but labels show only the first few
    differences."""

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
    """A config's name and label for display: ``wide: samples=8``."""
    return f"{name}: {label}" if name and label and name != label else name or label


def named_configs(configs: Any, fields: Collection[str]) -> Any:
    """Validate ``configs`` and return them with dotted keys. ``fields``: those of the whole config. Raises
    ``ValueError``."""
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
    """Validate ``grid`` and return it with dotted keys. Raises ``ValueError``."""
    found = flattened(grid) if isinstance(grid, Mapping) else {"": grid}
    for key, values in found.items():
        if not isinstance(values, list | tuple) or not values or not key:
            raise ValueError(f"{key or 'every setting'} needs a list of values, such as solver.samples: [2, 4]")
    _may_vary(found, fields)
    return found


def _may_vary(keys: Collection[str], fields: Collection[str]) -> None:
    for key in sorted(keys):
        if (top := key.partition(".")[0]) in fields and top not in AXES:
            raise ValueError(f"{key} cannot be varied: configs of one sweep may differ only in {', '.join(AXES)}, and "
                             "must share everything else to be comparable")  # fmt: skip
