"""The only MLflow writer of a sweep or climb, in its own process, so that nobody waits the seconds that importing
MLflow takes."""

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hc_ray.agent.prompt_templates import PROMPTS, role_of, template
from hc_ray.agent.skills import prompts_of
from hc_ray.domain.config import TESTERS, RoleName
from hc_ray.domain.trial import TrialKey
from hc_ray.domain.value import digest_of
from hc_ray.domain.waiting import apart
from hc_ray.machine.lean_imports import without_pandas
from hc_ray.machine.sealed_box import Addressee
from hc_ray.stores.mlflow_story import Prompts, Status, Story
from hc_ray.stores.mlflow_sweep import sweep_story
from hc_ray.stores.sweep_directory import SweepStore

NICE = 10


class Tracker(Addressee):
    """Exports a sweep's or climb's directory to a tracking server."""

    def __init__(self, uri: str, out: str) -> None:
        self._uri, self._out = uri, out
        self._turn = threading.Lock()
        """Concurrent updates would overwrite each other."""

    async def prepare(self) -> None:
        """Import MLflow and open its database, at low priority."""
        with contextlib.suppress(OSError):
            os.nice(NICE)
        from hc_ray.stores.mlflow_tracker import MlflowTracker

        gc.disable()  # imported modules are never garbage
        try:
            with without_pandas():
                await asyncio.to_thread(MlflowTracker(self._uri).prepare)
        finally:
            gc.freeze()
            gc.enable()

    async def export(self, summary: dict[str, Any], status: Status) -> str:
        """Write the sweep's runs in their current state and return the parent run's id. Raises whatever the tracker
        raises; the caller reports it and continues, since the sweep directory is the source of truth."""
        return await self._apart(lambda: export(self._uri, self._out, summary, status))

    async def tell(self, story: Story, status: Status) -> str:
        """Like ``export``, for a climb."""
        return await self._apart(lambda: tell(self._uri, self._out, story, status))

    def _apart(self, update: Callable[[], str]) -> Awaitable[str]:
        """Run an update in a daemon thread, since a server may never answer."""

        def work() -> str:
            with self._turn:
                return update()

        return apart(work)


def export(uri: str, out: str, summary: Mapping[str, Any], status: Status = "FINISHED") -> str:
    """Write the runs of a sweep's summary, with its report; returns the parent run's id."""
    from hc_ray.reports.sweep_page import html, sentence_of

    note, store = "\n\n".join(sentence_of(item) for item in summary["comparisons"]), SweepStore(out)
    story = sweep_story(
        summary, page=html(summary), note=note, store=store if status == "FINISHED" else None,
        prompts=prompts_in(store, summary["trials"]),
    )  # fmt: skip
    return tell(uri, out, story, status)


def tell(uri: str, out: str, story: Story, status: Status = "FINISHED") -> str:
    """Write a story's runs, and at its end its trajectories."""
    from hc_ray.stores.mlflow_tracker import MlflowTracker

    return MlflowTracker(uri).tell(story, status, store=SweepStore(out) if status == "FINISHED" else None)


def prompts_in(store: SweepStore, rows: Sequence[Mapping[str, Any]], where: str = "") -> dict[str, tuple[Prompts, ...]]:
    """Config hash → the prompt templates of its trials, which they all share."""
    found: dict[str, tuple[Prompts, ...]] = {}
    for row in rows:
        if row["config_hash"] not in found and store.exists(path := f"{where}trials/{row['trial']}/config.json"):
            key = TrialKey.model_validate_json(store.read(path), extra="ignore")
            found[row["config_hash"]] = tuple(_prompts(key, role, told) for role, told in key.prompts.items())
    return found


def _prompts(key: TrialKey, role: RoleName, told: str) -> Prompts:
    """A role's prompt templates, with the solver's hint. Of other templates or skills than ours, only the digest is
    known."""
    hint = key.solver.hint if role == "solver" else ""
    if prompts_of(key.solver, role) == told:
        whose = "tester" if role in TESTERS else role
        names = sorted(path.stem for path in PROMPTS.glob("*.txt") if role_of(path.stem) == whose)
        text = "\n\n".join(f"# {name}\n{template(name)}" for name in names)
    else:
        text = f"templates or skills that this installation does not have: SHA-256 {told}"
    text = f"# hint\n{hint}\n\n{text}" if hint else text
    return Prompts(role=role, digest=digest_of([role, told, hint]), text=text)
