"""Resumes a sweep directory: which settings must match, which may differ, and which trials are still to run."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.trial import TrialResult
from hc_ray.domain.value import Value, counted, flattened
from hc_ray.reports.report import read_sweep
from hc_ray.stores.sweep_directory import SweepStore, sweep_at

PLACEMENT = {"concurrency", "sandbox_slots", "mlflow_uri", "retries"}
"""Settings that a resume may change; stored as defaults for a resume."""
EVIDENCE = "exception.txt"
"""This file marks an unscored trial's folder, so that a resume need not read every result."""

RESULT, UNREADABLE = "result.json", "result.unreadable"


class Found(Value):
    """The trials of an earlier start; names are sorted."""

    finished: tuple[str, ...] = ()
    """Names of the trials that have a verdict."""
    unscored: tuple[str, ...] = ()
    """Names of the trials with a result but no verdict: they run again and keep the evidence of what failed."""
    torn: tuple[str, ...] = ()
    """Names of the trials with a result half-written at a power cut: they run again as if it did not exist."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One line per finding for the plan."""
        if not self.torn:
            return ()
        shown = ", ".join(self.torn[:3]) + (", …" if len(self.torn) > 3 else "")
        return (f"{counted(len(self.torn), 'result')} cannot be read ({shown}): each such trial runs again",)


def comparable(config: SweepConfig) -> dict[str, Any]:
    """The part of a config that a resume must repeat: everything but where it runs and how wide."""
    return config.model_dump(mode="json", exclude={"out", "search", *PLACEMENT})


def stored_config(out: str) -> SweepConfig:
    """The config of a sweep directory. Raises ``OutputError`` if there is none, or if it is part of a climb."""
    climb, inner, _ = (out if "://" in out else str(Path(out).absolute())).rpartition("/sweeps/")
    if inner and SweepStore(climb).exists("climb/declared.json"):
        raise OutputError(f"{out} is part of a climb; to continue the climb: hc-ray climb --resume -o {climb}")
    stored = read_sweep(sweep_at(out))
    try:
        return SweepConfig.model_validate({**stored["given"], **stored["placement"], "out": out})
    except (ValidationError, KeyError) as error:
        field = ".".join(map(str, error.errors()[0]["loc"] if isinstance(error, ValidationError) else error.args))
        raise OutputError(
            f"{out}: this version of hc-ray cannot read the sweep's config ({field}); resume it with the version that "
            "started it, or start a new sweep"
        ) from None


def goes_on(store: SweepStore, kind: str, marker: str, *, resume: bool) -> bool:
    """True if the directory holds a sweep or climb (``kind``, known by its file ``marker``) to resume, False if a new
    one may start in it. Raises ``OutputError`` otherwise."""
    out, there = store.root, store.exists(marker)
    # A start that was killed early leaves only its lease.
    if not there and any(not path.startswith(("lease.json", "epochs/")) for path in store.list("")):
        raise OutputError(f"{out} is not empty and contains no {kind}; choose another folder with -o")
    if resume and not there:
        raise OutputError(f"{out}: no {kind} to resume; omit --resume to start one")
    if there and not resume:
        raise OutputError(f"{out} already contains a {kind}; add --resume to continue it, or choose another -o")
    return there


def reconcile(out: str, config: SweepConfig, sealed_digest: str, resume: bool, planned: set[str]) -> Found:
    """The trials that ``out`` already holds. Raises ``OutputError`` if it holds anything but the planned sweep."""
    store = SweepStore(out)
    if fault := store.refusal():
        raise OutputError(f"{out}: {fault}; choose another one with -o")
    if not goes_on(store, "sweep", "sweep.json", resume=resume):
        return Found()
    stored = read_sweep(store)
    before, now = flattened(stored["config"]), flattened(comparable(config))
    differing = sorted(name for name in now if before.get(name) != now[name])
    another = "start another sweep with a new -o"
    if differing:
        shown = "; ".join(f"{name}: {before.get(name)!r} there, {now[name]!r} here" for name in differing[:3])
        shown += "; …" if len(differing) > 3 else ""
        mend = f"leave out what differs, or {another}"
        raise OutputError(f"{out} belongs to a sweep with a different config ({shown}); {mend}")
    if stored["sealed_digest"] != sealed_digest:
        raise OutputError(f"{out}: the tests or the set of tasks changed since this sweep started; {another}")
    finished = store.holding(RESULT)
    if finished - planned:
        raise OutputError(
            f"{out}: {len(finished - planned)} of its trials ran with a different setup (sandbox {stored['sandbox']}, "
            f"or another model, profile or prompts); restore that setup, or {another}"
        )
    torn = _torn(store, finished)
    unscored = {name for name in (finished - torn) & store.holding(EVIDENCE) if _is_unscored(store, name)}
    parts = {"finished": finished - torn - unscored, "unscored": unscored, "torn": torn}
    return Found.model_validate({part: sorted(names) for part, names in parts.items()})


def set_aside(store: SweepStore, torn: Iterable[str]) -> None:
    """Rename unreadable results, so that they no longer count but can still be inspected."""
    for name in torn:
        store.write(f"trials/{name}/{UNREADABLE}", store.read(f"trials/{name}/{RESULT}"))
        store.remove(f"trials/{name}/{RESULT}")


def _torn(store: SweepStore, names: set[str]) -> set[str]:
    """The trials whose result is incomplete. Object stores write files atomically, so nothing is checked there."""
    return {name for name in names if store.locks and not _is_whole(store.read(f"trials/{name}/{RESULT}"))}


def _is_whole(result: bytes) -> bool:
    """Whether a result was written completely. After a power cut it lacks its end or contains zeros. Parsing 100,000
    results would take as long as a whole resume may, so only suspicious ones are parsed."""
    if result.startswith(b"{\n") and result.endswith(b"\n}") and b"\0" not in result:
        return True
    try:
        TrialResult.model_validate_json(result)
    except ValueError:
        return False
    return True


def _is_unscored(store: SweepStore, name: str) -> bool:
    # The marker may remain after the trial was scored: the result decides.
    return TrialResult.model_validate_json(store.read(f"trials/{name}/{RESULT}")).passed is None
