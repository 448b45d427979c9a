"""Keeps MLflow up to date from a separate process, while trials run and at the end. The sweep directory is the source
of truth: a failing tracker costs no result, and ``export mlflow`` can catch up."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hc_ray.domain.errors import StoreError
from hc_ray.domain.value import canonical_json
from hc_ray.reports import report
from hc_ray.stores.sweep_directory import SweepStore
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver import results
from hc_ray_actors.driver.crew.distribution import give_keys
from hc_ray_actors.driver.plan import Plan
from hc_ray_actors.tracker import Tracker

PERIOD = 30.0
"""Minimum seconds between two updates."""
SHARE = 0.02
"""The largest share of the time that updates may take."""
PATIENCE = 10.0
"""Seconds that an interrupted sweep waits for the tracker."""
LONGEST, A_TRIAL = 600.0, 1.0
"""The longest wait in seconds at a sweep's end, and its extension per trial, since a server may never answer."""

Scan = Callable[[bytes], Awaitable[None]]


class Tracking:
    """The tracking of one sweep."""

    def __init__(self, plan: Plan, store: SweepStore, scan: Scan) -> None:
        """``scan`` raises ``LeakError`` if the data to be sent contains a canary."""
        uri = plan.config.mlflow_uri or results.default_tracking_uri(plan.out)
        self.uri = None if uri == "none" else uri
        self._plan, self._store, self._scan = plan, store, scan
        self._tracker: Any = None
        self._begun = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def prepare(self, cluster: Cluster) -> None:
        """Start the tracker, which takes seconds. In-process it sends nothing before the end, since MLflow would
        compete for the CPU."""
        if self.uri is not None and cluster.where != "in-process":
            self._tracker = self._spawned(cluster)
            self._following = asyncio.ensure_future(self._follow())

    def begin(self) -> None:
        """Start following the sweep."""
        if self._tracker is not None:
            self._begun.set()

    async def end(self, summary: Mapping[str, Any], cluster: Cluster | None, *, interrupted: bool) -> str | None:
        """Send the final state and return the id of the sweep's run, None without tracking. Raises whatever the tracker
        raises, and ``StoreError`` if it does not answer in time."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self.uri is None or (interrupted and not self._begun.is_set()):
            return None
        if self._tracker is None:
            self._tracker = self._spawned(cluster) if cluster else Tracker(self.uri, results.absolute(self._plan.out))
        patience = PATIENCE if interrupted else LONGEST + A_TRIAL * len(summary["trials"])
        try:
            async with asyncio.timeout(patience):
                await give_keys(self._tracker, stores=True)
                return str(await self._tracker.export(dict(summary), "KILLED" if interrupted else "FINISHED"))
        except TimeoutError:
            raise StoreError(f"MLflow at {self.uri} did not answer within {patience:g} s") from None

    def _spawned(self, cluster: Cluster) -> Any:
        # On the driver's node, where its database is.
        return cluster.spawn(Tracker, self.uri, results.absolute(self._plan.out), node=cluster.here)

    async def _follow(self) -> None:
        with contextlib.suppress(Exception):  # the next update will report the problem if it persists
            await give_keys(self._tracker, stores=True)
            await self._tracker.prepare()
        await self._begun.wait()
        done = -1
        while True:
            began = time.monotonic()
            if done != (done := len(report.finished(self._store))):
                try:
                    await self._tell()
                except Exception:
                    done = -1  # the end will report the problem if it persists
            await asyncio.sleep(max(PERIOD, (time.monotonic() - began) / SHARE))

    async def _tell(self) -> None:
        summary = await asyncio.to_thread(report.summarise, self._store)
        await self._scan(canonical_json(summary).encode())
        await self._tracker.export(summary, "RUNNING")
