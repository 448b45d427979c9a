"""MLflow beside a climb, from a process of its own: told from the climb's folder whenever something is new there."""

import asyncio
import contextlib
import threading
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
    """Tells MLflow of a climb beside it: the last state counts, and whoever climbs waits for nothing but the end."""

    def __init__(self, uri: str, out: str, *, cluster: Cluster, sealed_root: str, note: Callable[[str], None]) -> None:
        """``sealed_root``: nothing is told in which a canary of it stands. ``note`` hears what went wrong."""
        self._out, self._sealed_root, self._note = out, sealed_root, note
        self._tracker = cluster.spawn(Tracker, uri, absolute(out), node=cluster.here)  # where its database is
        self._apart = cluster.where != "in-process"
        self._leak: LeakError | None = None
        self._wanted: Status = "RUNNING"
        self._more, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """The climb goes on, and has something new to tell. Raises ``LeakError`` where a canary was found."""
        if self._leak:
            raise self._leak
        self._more.set()

    def end(self, status: Status) -> None:
        """Tell how it ended; of an interrupted one not for long. Raises ``LeakError`` where a canary was found."""
        self._wanted = status
        self._ending.set()
        self._more.set()
        self._thread.join(PATIENCE if status == "KILLED" else None)
        if self._leak:
            raise self._leak

    def _follow(self) -> None:
        if self._apart:  # a process of its own, whose priority may be lowered
            with contextlib.suppress(Exception):  # the end will say what is wrong, if it still is
                asyncio.run(give_keys(self._tracker, stores=True))
                asyncio.run(self._tracker.prepare())
        while True:
            self._more.wait()
            self._more.clear()
            began, status = time.monotonic(), self._wanted
            try:
                self._tell(status)
            except LeakError as found:
                self._leak = found
                return
            except Exception as fault:  # the climb's folder is the truth, and can be exported
                if status != "RUNNING":
                    self._note(scrub(f"MLflow was not told: {fault}; to export: hc-ray export mlflow {self._out}"))
            if status != "RUNNING":
                return
            self._ending.wait((time.monotonic() - began) / SHARE)

    def _tell(self, status: Status) -> None:
        story = climb_story(self._out, whole=status == "FINISHED")
        if verifiers.leaks(self._sealed_root, [story.model_dump_json().encode()]):
            raise LeakError(
                "the climb's folder contains a canary from sealed files; it is not told, and the climb stops"
            )
        asyncio.run(self._tracker.tell(story, status))


@contextlib.contextmanager
def told(
    uri: str | None, out: str, *, cluster: Cluster, sealed_root: str, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """A climb that MLflow is told of meanwhile; yields what is to be called when there is something new."""
    if uri is None:
        yield lambda: None
        return
    tracking = ClimbTracking(uri, out, cluster=cluster, sealed_root=sealed_root, note=note)
    tracking.tell()
    try:
        yield tracking.tell
    except BaseException:
        tracking.end("KILLED")
        raise
    tracking.end("FINISHED")
