"""A climb in MLflow: the parent run is the climb, a child run one arm of a generation in one stage. Everything is read
from the climb's folder, so that a later export gives the same result as tracking during the climb."""

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hc_ray.climb.climb import DECLARED
from hc_ray.climb.evaluation import Aggregates
from hc_ray.climb.generation import CONFIRM, CONTROL, OWN, SEEDS
from hc_ray.climb.proposals import Record
from hc_ray.domain.credentials import scrub
from hc_ray.domain.errors import LeakError, OutputError
from hc_ray.domain.value import digest_of
from hc_ray.reports.climb_report import change_of, records_of
from hc_ray.reports.report import figures_of, models_of, read_sweep, rows_of, stored_json
from hc_ray.stores.mlflow_story import Point, Prompts, Run, Status, Story, milliseconds, points, span_of, told_of
from hc_ray.stores.mlflow_sweep import TABLES, TRIALS, metrics_of, tables_of
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors import verifiers
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew.distribution import give_keys
from hc_ray_actors.driver.results import absolute
from hc_ray_actors.driver.tracking import LONGEST, PATIENCE, SHARE
from hc_ray_actors.tracker import Tracker, prompts_in

Data = dict[str, Any]
WAIT = 60.0
"""The most seconds that a climb waits for the tracker before a sweep: another process may lock its database."""


class Arm(NamedTuple):
    """One arm of a generation and stage; ``place`` None is the incumbent."""

    generation: int
    place: int | None
    stage: str

    @property
    def part(self) -> str:
        return f"{self.generation}-{CONTROL if self.place is None else self.place}/{self.stage}"


class Sweep(NamedTuple):
    """One sweep of a climb, as stored."""

    folder: str
    about: Data
    rows: list[Data]


def climb_story(out: str, *, whole: bool = True) -> Story:
    """A climb's story for MLflow; ``whole`` includes tables and traces. Raises ``OutputError``."""
    store = SweepStore(out)
    settings = stored_json(store, "settings.json")
    if settings is None:
        raise OutputError(f"{out}: no climb (no settings.json)")
    records = records_of(store)
    sweeps = _sweeps(out, store)
    digests = sorted({task["digest"] for one in sweeps for task in one.about["tasks"]})
    told = stored_json(store, "climb.json") or {}
    # Sealed digests, and anything derived from them, are never exported.
    config = {name: value for name, value in settings["identity"].items() if name != "sealed_digest"}
    first = sweeps[0].about if sweeps else {}
    common = {"git_sha": (first.get("versions") or {}).get("git_sha"), "dataset": config["dataset"], "split": "dev"}
    if digests:
        common |= {"public_digests": digest_of(digests), "tuned on": f"{len(digests)} dev tasks"}
    prompts: dict[str, tuple[Prompts, ...]] = {}
    for one in sweeps:
        prompts |= prompts_in(store, one.rows, one.folder)
    by_arm = _by_arm(sweeps, records)
    champion = _champion(records, by_arm)
    children = [_child(store, arm, trials, records, common, prompts, sweeps, whole=whole, crowned=arm == champion)
                for arm, trials in sorted(by_arm.items(), key=lambda item: item[0].part)]  # fmt: skip
    rows = [row for one in sweeps for row in one.rows]
    started, ended = milliseconds(settings["began"]), span_of(rows)[1]
    changes = [_change(record) for record in records]
    asked = (stored_json(store, DECLARED) or {}).get("meta_prompt")
    files = {"config.json": json.dumps(config, indent=1)}
    files |= {name: store.read(name).decode() for name in ("champion.yaml", "climb.json") if store.exists(name)}
    note = f"{told['accepted']} changes accepted, {told['says']}; changes.json has all of them." if told else ""
    parent = Run(
        part="climb", name=f"climb {settings['began'][:19]}", started=started, ended=max(started, ended),
        config=config, points=_by_generation(records), files=files,
        tags={**common, "mlflow.note.content": note or None},
        tables={"changes.json": changes} if changes else {},
        prompts=(Prompts(role="meta", digest=digest_of(asked), text=asked),) if asked else (),
    )  # fmt: skip
    return Story(
        id=digest_of({**settings, "identity": config})[:16],
        dataset=config["dataset"], model=str(models_of(config)), source="hc-ray climb", split="dev",
        digest=common.get("public_digests", ""), parent=parent, children=tuple(children),
    )  # fmt: skip


def _sweeps(out: str, store: SweepStore) -> list[Sweep]:
    """The climb's sweeps so far, in order."""
    names = (stored_json(store, "sweeps.json") or {}).values()
    begun = [folder for name in names if store.exists((folder := f"sweeps/{name}/") + "sweep.json")]
    stores = {folder: SweepStore(f"{out}/{folder.rstrip('/')}") for folder in begun}
    return [Sweep(folder, read_sweep(one), [{**row, "where": folder} for row in rows_of(one)])
            for folder, one in stores.items()]  # fmt: skip


def _by_arm(sweeps: Sequence[Sweep], records: Sequence[Record]) -> dict[Arm, list[list[Data]]]:
    """Each arm's trials, by sweep. A trial's seed identifies generation, stage and control; its config identifies the
    change."""
    places = {(one.proposal.generation, one.proposal.proposer): one.proposal.place for one in records}
    still = {one.proposal.generation: one.proposal.place for one in records if one.proposal.knob is None}
    found: dict[Arm, list[list[Data]]] = defaultdict(list)
    for sweep in sweeps:
        names = {one["stands"].get("hc", one["hash"]): one["name"] for one in sweep.about["configs"]}
        here: dict[Arm, list[Data]] = defaultdict(list)
        for row in sweep.rows:
            generation, within = row["seed"] // SEEDS % 1000, row["seed"] % SEEDS
            own, name = within % CONFIRM >= OWN, names.get(row["config_hash"], CONTROL)
            place = still.get(generation) if own else places.get((generation, name))
            stage = "confirm" if within >= CONFIRM else "race"
            here[Arm(generation, place, stage if place is not None else CONTROL)].append(row)
        for arm, rows in here.items():
            found[arm].append(rows)
    return found


def _champion(records: Sequence[Record], arms: Mapping[Arm, Any]) -> Arm | None:
    """The arm of the last confirmed config, or else of the first incumbent."""
    path = [one.proposal for one in records if one.accepted and one.proposal.knob]
    arm = Arm(path[-1].generation, path[-1].place, "confirm") if path else Arm(1, None, CONTROL)
    return arm if arm in arms else None


def _child(
    store: SweepStore, arm: Arm, parts: Sequence[Sequence[Data]], records: Sequence[Record], common: Data,
    prompts: Mapping[str, Sequence[Prompts]], sweeps: Sequence[Sweep], *, whole: bool, crowned: bool,
) -> Run:  # fmt: skip
    rows: list[Data] = []
    told: list[Point] = []
    for part in parts:
        rows += part
        told += points(metrics_of(figures_of(rows)), len(rows))
    record = next((one for one in records
                   if (one.proposal.generation, one.proposal.place) == (arm.generation, arm.place)), None)  # fmt: skip
    change: Data = _change(record) if record else {"generation": arm.generation, "proposer": CONTROL}
    what = change_of(change, most=40) if change.get("knob") else ""
    config_hash = rows[0]["config_hash"]
    settings: Data = next((one["settings"] for sweep in sweeps for one in sweep.about["configs"]
                     if config_hash in (one["hash"], one["stands"].get("hc"))), {})  # fmt: skip
    started, ended = span_of(rows)
    trials = {row["trial"]: row for row in rows}
    tables = {file: told for file, told in _tables(store, parts, trials).items() if told} if whole else {}
    return Run(
        part=arm.part, name=_title(arm, change["proposer"], what),
        started=started, ended=ended, points=tuple(told),
        config={"agent": "hc", "change": what or "none", **settings},
        tags={**common, **change, "agent": "hc", "stage": arm.stage, "config_hash": config_hash,
              "champion": "yes" if crowned else "no"},
        tables={TRIALS: rows, **tables} if whole else {},
        trials=tuple(rows) if whole else (), prompts=tuple(prompts.get(config_hash, ())),
    )  # fmt: skip


def _tables(store: SweepStore, parts: Sequence[Sequence[Data]], trials: Mapping[str, Data]) -> dict[str, list[Data]]:
    found: dict[str, list[Data]] = {file: [] for file in TABLES}
    for where in dict.fromkeys(part[0]["where"] for part in parts):
        for file, rows in tables_of(store, where).items():
            found[file] += told_of(rows, trials)
    return found


def _title(arm: Arm, proposer: str, what: str) -> str:
    """A run's name: generation, change, proposer and stage."""
    told = what or ("incumbent" if arm.place is None else "")
    return f"{arm.generation}: " + ", ".join(dict.fromkeys(word for word in (told, proposer, arm.stage) if word))


def _by_generation(records: Sequence[Record]) -> tuple[Point, ...]:
    """The incumbent's figures by generation; a change accepted in the last generation appears at the step after it."""
    steps: dict[int, tuple[Aggregates, int]] = {}
    for one in records:
        if one.decision is None:
            continue
        number = one.proposal.generation
        steps[number] = (one.decision.control, one.decision.tokens)
        if one.accepted and one.proposal.knob:
            steps[number + 1] = (one.decision.own, one.decision.tokens)
    found: list[Point] = []
    for number, (told, tokens) in sorted(steps.items()):
        known = {"blind_pass_rate": told.pass_rate, "tokens_per_trial": told.means.get("tokens"),
                 "self_pass_rate": told.means.get("self_pass"), "turns": told.means.get("turns")}  # fmt: skip
        found += points({f"incumbent/{name}": value for name, value in known.items()}, number)
        found += points({"tokens": tokens}, number)
    return tuple(found)


def _change(record: Record) -> Data:
    """A record as tags, and as a row of the table of changes."""
    proposal, decision, worth = record.proposal, record.decision, record.worth
    own = proposal.model_dump(mode="json", include={"generation", "proposer", "knob", "before", "after", "reason"})
    evidence = worth.model_dump(include={"control", "changed", "p", "saved"}) if worth else {}
    return {**own, "parent_config": proposal.parent, "verdict": decision.verdict if decision else None,
            "why": decision.why if decision else None, **evidence}  # fmt: skip


@contextlib.contextmanager
def told(
    uri: str | None, out: str, *, cluster: Cluster, sealed_root: str, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Track a climb in MLflow while it runs. Yields a function to call when there is news; since sweeps wait for it,
    its share of time is bounded, and skipped updates are caught up by the next. Raises ``LeakError`` rather than export
    a canary of ``sealed_root``. ``note`` receives problems."""
    if uri is None:
        yield lambda: None
        return
    tracker = cluster.spawn(Tracker, uri, absolute(out), node=cluster.here)  # where its database is
    ready = cluster.where == "in-process"  # else it is a separate process, whose priority may be lowered
    start, spent = time.monotonic(), 0.0

    async def update(status: Status) -> None:
        nonlocal ready
        story = climb_story(out, whole=status == "FINISHED")
        if verifiers.leaks(sealed_root, [story.model_dump_json().encode()]):
            raise LeakError(
                "the climb's folder contains a canary from sealed files; it was not exported, and the climb stops"
            )
        if not ready:
            await give_keys(tracker, stores=True)
            await tracker.prepare()
            ready = True
        await tracker.tell(story, status)

    def tell(status: Status = "RUNNING") -> None:
        nonlocal spent
        began = time.monotonic()
        if status == "RUNNING" and spent > PATIENCE + SHARE * (began - start):
            return
        try:
            limit = {"RUNNING": WAIT, "KILLED": PATIENCE}.get(status, LONGEST)
            asyncio.run(asyncio.wait_for(update(status), limit))
        except LeakError:
            raise
        except Exception as fault:  # the climb's folder is the source of truth and can be exported later
            if status != "RUNNING":
                says = str(fault) or "no answer in time"
                note(scrub(f"not exported to MLflow: {says}; to export: hc-ray export mlflow {out}"))
        spent += time.monotonic() - began

    try:
        yield tell
    except BaseException:
        tell("KILLED")
        raise
    tell("FINISHED")
