"""A sweep's story: the parent run is the sweep, a child run an (agent, config, split)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.domain.ports import Store
from hc_ray.domain.value import canonical_json, digest_of
from hc_ray.stores.mlflow_story import Prompts, Run, Story, milliseconds, points, span_of, told_of

TRIALS, CANDIDATES, TESTS = "trials.json", "candidates.json", "tests.json"
TABLES = (CANDIDATES, TESTS)


def sweep_story(
    summary: Mapping[str, Any],
    *,
    page: str,
    note: str,
    store: Store | None = None,
    prompts: Mapping[str, Sequence[Prompts]] = {},
) -> Story:
    """``summary``: the report's; ``page``: it as HTML; ``note``: what it lets one say; ``store``: the sweep directory,
    for its tables and traces, which a sweep that still runs has not; ``prompts``: by hash of the config."""
    about = summary["sweep"]
    started, ended = span_of(summary["trials"])
    tables = tables_of(store) if store else {}
    common = {"git_sha": about["git_sha"], "public_digests": digest_of(about["task_digests"]),
              "dataset": about["dataset"], "split": about["split"]}  # fmt: skip
    totals = {
        "trials": about["trials"],
        "unscored": sum(config["unscored"] for config in summary["configs"]),
        "bits": summary["bits"],
    }
    parent = Run(
        part="sweep", name=f"sweep {(about['started_at'] or about['id'])[:19]}", ended=ended,
        started=milliseconds(about["started_at"]) if about["started_at"] else started,
        tags={**common, "mlflow.note.content": note or None}, config=about["config"],
        points=points(totals, about["trials"]), tables={TRIALS: [dict(row) for row in summary["trials"]]},
        files={"report.html": page, "report.json": json.dumps(summary, indent=1),
               "config.json": json.dumps(about["config"], indent=1)},
    )  # fmt: skip
    settings = {one["hash"]: (one["settings"], one["changes"]) for one in about["configs"]}
    children = []
    for config in summary["configs"]:
        key = {name: config[name] for name in ("agent", "config_hash", "split")}
        own, changes = settings.get(config["config_hash"], ({}, {}))
        trials = {str(row["trial"]): row for row in summary["trials"] if key.items() <= row.items()}
        child = Run(
            part="/".join(key.values()), name=f"{config['agent']} {config['split']} {config['config']}".rstrip(),
            started=started, ended=ended, points=points(metrics_of(config), config["trials"]),
            config={"agent": key["agent"], **about["config"], **own},
            tags={**common, **key, "config": config["config"] or None, "sandbox": config["sandbox"],
                  "grading": config["grading"], "changes": canonical_json(changes) if changes else None},
            tables={file: rows for file, table in tables.items() if (rows := told_of(table, trials))},
            trials=tuple(trials.values()) if store else (), prompts=tuple(prompts.get(config["config_hash"], ())),
        )  # fmt: skip
        children.append(child)
    return Story(
        id=about["id"], dataset=str(about["dataset"] or "unknown"), model=str(about["model"] or "no model"),
        source="hc-ray sweep", split=str(about["split"]), digest=common["public_digests"], parent=parent,
        children=tuple(children),
    )  # fmt: skip


def tables_of(store: Store, where: str = "") -> dict[str, list[dict[str, Any]]]:
    """File → rows of those tables that a sweep, in the folder ``where``, has written, without what a clock said."""
    paths = {file: f"{where}tables/{file.removesuffix('.json')}.parquet" for file in TABLES}
    return {
        file: [{name: row[name] for name in row if name != "engine_seconds"} for row in store.rows(path)]
        for file, path in paths.items()
        if store.exists(path)
    }


def metrics_of(config: Mapping[str, Any]) -> dict[str, float | None]:
    """A report's config as MLflow metrics."""
    pairs = {
        f"{name}_rate{end}": config[name][field]
        for name in ("blind_pass", "self_pass")
        for field, end in (("value", ""), ("low", "_low"), ("high", "_high"))
    }
    rest = ("selection_efficiency", "score", "turns", "tokens", "tokens_per_trial", "engine_seconds", "seconds",
            "trials", "unscored")  # fmt: skip
    unscored = config["blind_pass_unscored_as_fail"]["value"]
    return {**pairs, "blind_pass_rate_unscored_as_fail": unscored, **{name: config[name] for name in rest}}
