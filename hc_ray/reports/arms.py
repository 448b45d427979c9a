"""The arms of a report: agents under configs, their names, and the sweep directories they come from."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hc_ray.domain.errors import OutputError
from hc_ray.domain.value import counted, digest_of, flattened
from hc_ray.domain.variants import AXES, labels, titled

Data = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")


def grouped(rows: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Rows grouped by ``key``, in their order."""
    found: dict[K, list[T]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def arm_of(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Agent, config hash, split."""
    return row["agent"], row["config_hash"], row["split"]


def declared_by(sweep: Mapping[str, Any], rows: Sequence[Data]) -> list[Data]:
    """The configs in ``sweep.json``, in the plan's order, then those that occur only in its trials."""
    known = [dict(one) for one in sweep.get("configs") or []]
    settings = flattened({name: part for name, part in (sweep.get("config") or {}).items() if name in AXES})
    for found in dict.fromkeys(row["config_hash"] for row in rows):
        if all(one["hash"] != found for one in known):
            known.append({"name": "", "hash": found, "changes": {}, "stands": {}, "settings": settings})
    return known


def stands_for(one: Mapping[str, Any], agent: str) -> str:
    """Hash of the config whose trials an agent shares with this config, or of the config itself."""
    return str(one["stands"].get(agent, one["hash"]))


def name_configs(rows: Sequence[Data], declared: Sequence[Data], changes: Sequence[str]) -> None:
    """Set each row's ``config``, a name with the values that differ from the agent's other configs, and its ``label``,
    the agent with that name; an agent with a single config gets none. ``changes``: the keys that count as a
    difference; empty means all."""
    titles: dict[tuple[str, str], tuple[str, str]] = {}
    for agent in {row["agent"] for row in rows}:
        ran = {row["config_hash"] for row in rows if row["agent"] == agent}
        own = list({one["hash"]: one for one in declared if one["hash"] in ran}.values())
        for one, label in zip(own, labels([one["settings"] for one in own], changes), strict=True):
            names = {other["name"]: None for other in declared if stands_for(other, agent) == one["hash"]}
            name = ", ".join(names) if len(names) < 3 else ""
            title = titled(name, label) if len(names) == 1 else name or label
            several = (title or one["hash"][:8], f"{agent} ({name or label or one['hash'][:8]})")
            titles[agent, one["hash"]] = several if len(own) > 1 else ("", agent)
    for row in rows:
        row["config"], row["label"] = titles[row["agent"], row["config_hash"]]


def tuned(on: Collection[str], tasks: Collection[str]) -> list[str]:
    """The caveat to print if the config was chosen by its verdicts ``on`` some of these tasks."""
    if not on:
        return []
    among = sum(task in on for task in tasks)
    told = f"tuned on {among} of these {counted(len(tasks), 'task')}"
    return [f"{told}, whose pass rates overstate it (docs/protocol.md)" if among else told]


def together(sweeps: Mapping[str, Data], rows: Mapping[str, list[Data]]) -> tuple[Data, list[Data], list[Data]]:
    """Merge several sweeps of one dataset, keyed by directory name, into one ``sweep.json``, its rows and its configs.
    A trial in several sweeps counts once, scored if any copy is. Raises ``OutputError``."""
    first = next(iter(sweeps))
    digests: dict[str, tuple[str, str]] = {}
    kept: dict[tuple[Any, ...], Data] = {}
    declared: list[Data] = []
    for name, sweep in sweeps.items():
        here, there = (str(one["config"]["dataset"]).rsplit("/", 1)[-1] for one in (sweep, sweeps[first]))
        if here != there:
            raise OutputError(f"{name} ran on dataset {here}, {first} on {there}; a report covers only one dataset")
        for row in rows[name]:
            digest, where = digests.setdefault(row["task"], (row["task_digest"], name))
            if digest != row["task_digest"]:
                raise OutputError(
                    f"task {row['task']} differs between {name} and {where}: the dataset changed in between"
                )
            key = (row["agent"], row["config_hash"], row["split"], row["task"], row["seed"])
            if key not in kept or kept[key]["passed"] is None:
                kept[key] = row
        declared += [{**one, "name": one["name"] or name} for one in declared_by(sweep, rows[name])]
    repeated = sum(map(len, rows.values())) - len(kept)
    planned = [int(sweep.get("planned_trials") or 0) for sweep in sweeps.values()]
    whole = {
        **sweeps[first],
        "sweep_id": digest_of([sweep.get("sweep_id") for sweep in sweeps.values()])[:16],
        "planned_trials": sum(planned) - repeated if all(planned) else None,
        "holdout_looks": max((one["holdout_looks"] for one in sweeps.values() if one.get("holdout_looks")), default=0),
        "tuned_on": sorted({task for one in sweeps.values() for task in one.get("tuned_on") or ()}),
        "directories": list(sweeps),
        "repeated": repeated,
    }
    return whole, list(kept.values()), declared
