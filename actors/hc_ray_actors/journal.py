"""A sweep directory's single owner: the lease with its epoch, and the numbered segments of the event journal."""

import os
import socket
import time

from hc_ray.adapters.sweep_store import SweepStore
from hc_ray.errors import OutputError, StoreError
from hc_ray.events import Event
from hc_ray.owner import current_owner, is_alive
from hc_ray.value import Value

LEASE = "lease.json"
LEASE_SECONDS = 30.0
"""A lease on another machine that was not renewed for so long is dead."""
SEGMENT_EVENTS = 500
FLUSH_SECONDS = 2.0


class Held(Value):
    """``lease.json``: who holds a sweep directory, since which start."""

    schema_version: int = 1
    epoch: int
    owner: str
    pid: int
    host: str
    renewed_at: float
    released: bool = False

    def lives(self) -> bool:
        """Whether its holder may still write: on this machine the process tells, elsewhere the time since it
        renewed."""
        if self.released:
            return False
        if self.host == socket.gethostname():
            return is_alive(self.owner)
        return time.time() - self.renewed_at < LEASE_SECONDS


class Lease:
    """Who may write to a sweep directory. Every start raises the epoch; a writer that finds a newer epoch than its own
    drops what it was about to write, so that a resume right after SIGKILL does not race with what still dies."""

    def __init__(self, store: SweepStore) -> None:
        self._store = store
        held = self._read()
        if held and held.lives():
            raise OutputError(f"{store.root}: another hc-ray (process {held.pid} on {held.host}) is running this sweep")
        self.epoch = held.epoch + 1 if held else 1
        self._renewed = 0.0
        self.renew()

    def _read(self) -> Held | None:
        try:
            return Held.model_validate_json(self._store.read(LEASE))
        except FileNotFoundError:
            return None
        except ValueError as fault:
            raise StoreError(f"{self._store.root}: {LEASE} cannot be read; if no sweep runs here, remove it") from fault

    def renew(self, *, released: bool = False) -> None:
        """Say that this process still holds the directory."""
        self._renewed = time.time()
        held = Held(
            epoch=self.epoch,
            owner=current_owner(),
            pid=os.getpid(),
            host=socket.gethostname(),
            renewed_at=self._renewed,
            released=released,
        )
        self._store.write(LEASE, held.model_dump_json().encode())

    def check(self) -> None:
        """Raises ``StoreError`` when a newer owner has taken over; renews what is getting old."""
        held = self._read()
        if held and (held.epoch, held.owner) != (self.epoch, current_owner()):
            raise StoreError(f"{self._store.root}: another hc-ray took this sweep over; this one stops")
        if time.time() - self._renewed > LEASE_SECONDS / 3:
            self.renew()

    def release(self) -> None:
        """Let the directory go; a later start need not wait. A newer owner's lease is left alone."""
        held = self._read()
        if held and held.epoch == self.epoch:
            self.renew(released=True)


class Journal:
    """Appends events to ``events/<n>.jsonl``: a segment is written whole each time it grows, and a new one begun when
    it is full, which works on object stores too."""

    def __init__(self, store: SweepStore, lease: Lease) -> None:
        self._store, self._lease = store, lease
        segments = [path for path in store.list("events") if path.endswith(".jsonl")]
        self._number = len(segments)
        self._lines: list[str] = []
        self._written = 0
        self._flushed = time.monotonic()

    def emit(self, event: Event) -> None:
        self._lines.append(event.model_dump_json())
        if len(self._lines) >= SEGMENT_EVENTS or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        if len(self._lines) > self._written:
            self._lease.check()
            text = "\n".join(self._lines) + "\n"
            self._store.write(f"events/{self._number:06d}.jsonl", text.encode())
            self._written = len(self._lines)
        if len(self._lines) >= SEGMENT_EVENTS:
            self._number, self._lines, self._written = self._number + 1, [], 0
        self._flushed = time.monotonic()
