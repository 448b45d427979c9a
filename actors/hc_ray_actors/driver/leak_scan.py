"""Scans everything that a sweep writes for canaries of the sealed files, which only verifiers know."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from hc_ray.domain.errors import InfrastructureError, LeakError
from hc_ray_actors.attempts import fault_of
from hc_ray_actors.driver.crew.crew import Crew

AT_ONCE = 256
"""The most events of one trial that wait for a scan: hundreds of running trials have tens of thousands of events."""


class LeakScan:
    """The scans of one sweep."""

    def __init__(self, crew: Callable[[], Crew | None]) -> None:
        """``crew`` returns the current crew; without verifiers there is nothing to search for."""
        self._crew = crew
        self._told: defaultdict[str, list[bytes]] = defaultdict(list)
        """Trial → its events that have not been scanned."""
        self._early: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        """Scans that started before their trial's end."""

    def hear(self, trial: str, told: bytes) -> None:
        """Queue an event of a trial, or of the sweep itself (``""``), for a scan."""
        self._told[trial].append(told)
        if len(self._told[trial]) % AT_ONCE == 0 and (crew := self._crew()) is not None and crew.has_verifiers:
            part = self._told.pop(trial)
            search = asyncio.ensure_future(self._look(trial, part))
            # Failed scans are repeated at the trial's or the sweep's end, and find a canary again.
            search.add_done_callback(
                lambda ended: self._told[trial].extend(part if ended.cancelled() or ended.exception() else ())
            )
            self._early[trial].add(search)

    async def end_of(self, trial: str, blobs: Sequence[bytes]) -> None:
        """Scan a trial's events and ``blobs``, its files that are about to be written. Raises as ``look`` does."""
        await asyncio.gather(*self._early.pop(trial, ()), return_exceptions=True)
        told = self._told.pop(trial, [])
        try:
            await self.look(trial, [*blobs, *told])
        except BaseException:
            self._told[trial] += told
            raise

    async def rest(self, blobs: Iterable[bytes]) -> None:
        """Scan everything that no trial's end has covered. Raises as ``look`` does."""
        await asyncio.gather(*itertools.chain(*self._early.values()), return_exceptions=True)
        await self.look("", [*blobs, *itertools.chain(*self._told.values())])

    async def look(self, trial: str, blobs: Sequence[bytes]) -> None:
        """Scan ``blobs``. Raises ``LeakError`` if there is a canary, ``InfrastructureError`` if no verifier can scan
        them and, for a trial, ``Broken`` if none ever will."""
        try:
            await self._look(trial, blobs)
        except InfrastructureError as fault:
            crew = self._crew()
            if not trial or crew is None:
                raise
            # Nothing is written unscanned: another verifier scans it, or the sweep stops.
            await crew.mend(fault_of(fault))
            await self._look(trial, blobs)

    async def _look(self, trial: str, blobs: Sequence[bytes]) -> None:
        crew = self._crew()
        if crew is None or not crew.has_verifiers:
            return
        if found := await crew.verify(None, lambda verifier: verifier.leaks(blobs)):
            where = f"trial {trial}" if trial else "the sweep's journal or report"
            told = ", ".join(digest[:12] for digest in found[:3])
            raise LeakError(f"{where} contains a canary from the sealed files of task {told}; its results are void")
