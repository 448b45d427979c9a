"""MLflow beside a climb, from a process of its own: told from the climb's folder whenever something is new there."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

from hc_ray.domain.credentials import scrub
from hc_ray.domain.errors import LeakError
from hc_ray.stores.mlflow_story import Status
from hc_ray_actors import verifiers
from hc_ray_actors.cluster import Cluster
from hc_ray_actors.driver.crew.distribution import give_keys
from hc_ray_actors.driver.results import absolute
from hc_ray_actors.driver.tracking import PATIENCE, SHARE
from hc_ray_actors.jobs.climb_story import climb_story
from hc_ray_actors.tracker import Tracker


class ClimbTracking:
    """Tells MLflow of a climb between its steps, which wait for it: the share of their time that this takes is bounded.
    What is passed over is told with what comes next."""

    def __init__(self, uri: str, out: str, *, cluster: Cluster, sealed_root: str, note: Callable[[str], None]) -> None:
        """``sealed_root``: nothing is told in which a canary of it stands. ``note`` hears what went wrong."""
        self._out, self._sealed_root, self._note = out, sealed_root, note
        self._tracker = cluster.spawn(Tracker, uri, absolute(out), node=cluster.here)  # where its database is
        self._ready = cluster.where == "in-process"  # else a process of its own, whose priority may be lowered
        self._began, self._spent = time.monotonic(), 0.0

    def tell(self, status: Status = "RUNNING") -> None:
        """The climb has something new to tell, or has ended. Raises ``LeakError`` where a canary was found."""
        began = time.monotonic()
        if status == "RUNNING" and self._spent > PATIENCE + SHARE * (began - self._began):
            return
        try:
            asyncio.run(asyncio.wait_for(self._tell(status), PATIENCE if status == "KILLED" else None))
        except LeakError:
            raise
        except Exception as fault:  # the climb's folder is the truth, and can be exported
            if status != "RUNNING":
                says = str(fault) or "no answer in time"
                self._note(scrub(f"MLflow was not told: {says}; to export: hc-ray export mlflow {self._out}"))
        self._spent += time.monotonic() - began

    async def _tell(self, status: Status) -> None:
        story = climb_story(self._out, whole=status == "FINISHED")
        if verifiers.leaks(self._sealed_root, [story.model_dump_json().encode()]):
            raise LeakError(
                "the climb's folder contains a canary from sealed files; it is not told, and the climb stops"
            )
        if not self._ready:
            await give_keys(self._tracker, stores=True)
            await self._tracker.prepare()
            self._ready = True
        await self._tracker.tell(story, status)


@contextlib.contextmanager
def told(
    uri: str | None, out: str, *, cluster: Cluster, sealed_root: str, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """A climb that MLflow is told of meanwhile; yields what is to be called when there is something new."""
    if uri is None:
        yield lambda: None
        return
    tracking = ClimbTracking(uri, out, cluster=cluster, sealed_root=sealed_root, note=note)
    try:
        yield tracking.tell
    except BaseException:
        tracking.tell("KILLED")
        raise
    tracking.tell("FINISHED")
