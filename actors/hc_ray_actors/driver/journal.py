"""A sweep directory's single owner: the lease with its epoch, and the numbered segments of the event journal.

Every start that takes a directory claims the next epoch with a file that only one process can create, on local disks,
on NFS and, by a conditional write, on S3. A start is refused if the last epoch's owner is alive, or if another start
claimed the next epoch first. On its own machine (``owner.machine``, not its host name) an owner is alive if its process
is; on others, if it renews its lease.

A writer that finds a newer epoch than its own discards its write. If the file system has locks, the check and the write
are atomic, and the kernel releases the lock only when its holder is dead, so a resume right after SIGKILL cannot race
with a dying process. Without locks (object stores, NFS mounted with ``nolock``), one write may still be in progress
while another start takes over: it is a complete file of the same trial, which the newer start replaces."""

import concurrent.futures
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hc_ray.domain.errors import OutputError, StoreError
from hc_ray.domain.events import Event
from hc_ray.machine import lease as leases
from hc_ray.machine.lease import LEASE, Held, heard
from hc_ray.machine.owner import current_owner, is_alive, machine
from hc_ray.stores.sweep_directory import SweepStore

EPOCHS = "epochs"
LOCK = f"{EPOCHS}/lock"
LOCK_SECONDS = 20.0
SEGMENT_EVENTS = 500
FLUSH_SECONDS = 2.0


_OURS: set[tuple[str, int]] = set()
"""Directory and epoch of each lease of this process, since on a full disk a release cannot be written."""


class Lease:
    """The right to write to a sweep directory. Raises ``OutputError`` if another process holds it."""

    def __init__(self, store: SweepStore) -> None:
        self._store = store
        self._inside, self._lock, self._turn = 0, ExitStack(), threading.Lock()
        before = self._last()
        if before and not before.released and not before.here and heard(before, self._last):
            raise self._taken(before)
        with self._locked():
            held = self._last()
            # Whoever came meanwhile lives, whatever its machine's clock says.
            if held and not held.released and (self._lives(held) or (held != before and not held.here)):
                raise self._taken(held)
            self.epoch = held.epoch + 1 if held else 1
            if not store.claim(_mark(self.epoch), self._said()):
                raise OutputError(f"{store.root}: another hc-ray took this sweep at the same time; this one stops")
            store.write(LEASE, self._said())
        _OURS.add(self._key(self.epoch))
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._keeper.start()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the file lock. It belongs to the process, so that its threads share it."""
        with self._turn:
            if not self._inside:
                self._lock.enter_context(self._store.alone(LOCK, seconds=LOCK_SECONDS))
            self._inside += 1
        try:
            yield
        finally:
            with self._turn:
                self._inside -= 1
                if not self._inside:
                    self._lock.close()

    def _last(self) -> Held | None:
        """The last start's lease, or its bare claim if it got no further."""
        names = [path.rpartition("/")[2] for path in self._store.list(EPOCHS)]
        epoch = max((int(name) for name in names if name.isdigit()), default=0)
        held = self._read()
        if epoch <= (held.epoch if held else 0):
            return held
        try:
            return Held.model_validate_json(self._store.read(_mark(epoch)))
        except (FileNotFoundError, ValueError):  # half-written: the lease will follow, or the start is dead
            return Held(epoch=epoch, owner="", pid=0, host="an unknown host", machine="", renewed_at=0)

    def _read(self) -> Held | None:
        try:
            return Held.model_validate_json(self._store.read(LEASE))
        except FileNotFoundError:
            return None
        except ValueError as fault:
            raise StoreError(
                f"{self._store.root}: {LEASE} cannot be read; if no sweep is running here, remove it"
            ) from fault

    def _taken(self, held: Held) -> OutputError:
        told = f"{self._store.root}: another hc-ray (process {held.pid} on {held.host}) is running this sweep"
        if held.here:
            return OutputError(told)
        return OutputError(f"{told}; if that machine is gone, try again {leases.LEASE_SECONDS:.0f} s after it left")

    def _lives(self, held: Held) -> bool:
        if not held.here:
            return held.fresh
        if held.owner == current_owner():
            return self._key(held.epoch) in _OURS
        return is_alive(held.owner)

    def _key(self, epoch: int) -> tuple[str, int]:
        return os.path.realpath(self._store.root), epoch

    def _lost(self) -> bool:
        """Whether a newer start has taken over. Opens its lease anew, since NFS may cache that a file was missing."""
        if self._store.exists(_mark(self.epoch + 1)):
            return True
        held = self._read()
        return held is not None and held.epoch > self.epoch

    def _said(self, *, released: bool = False) -> bytes:
        held = Held(
            epoch=self.epoch,
            owner=current_owner(),
            pid=os.getpid(),
            host=socket.gethostname(),
            machine=machine(),
            renewed_at=time.time(),
            released=released,
        )
        return held.model_dump_json().encode()

    def _keep(self) -> None:
        """Renew the lease every few seconds."""
        while not self._over.wait(leases.LEASE_SECONDS / 3):
            try:
                with self._locked():
                    if self._over.is_set() or self._lost():
                        return
                    self._store.write(LEASE, self._said())
            except StoreError:
                continue  # the next write of a result will report it

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease while writing to the directory. Raises ``StoreError`` before anything is written if a newer
        owner has taken over."""
        with self._locked():
            if self._lost():
                raise StoreError(f"{self._store.root}: another hc-ray process took over this sweep; this one stops")
            yield

    def release(self) -> None:
        """Release the directory, so that a later start need not wait; leaves a newer owner's lease alone. Raises
        ``StoreError`` if it cannot be written; for this process the lease is released even then."""
        self._over.set()
        _OURS.discard(self._key(self.epoch))
        with self._locked():
            if not self._lost():
                self._store.write(LEASE, self._said(released=True))
        self._keeper.join(1.0)


def _mark(epoch: int) -> str:
    return f"{EPOCHS}/{epoch:06d}"


class Journal:
    """Appends events to ``events/<n>.jsonl``. A segment is rewritten whole whenever it grows, until it is full, which
    also works on object stores. A thread writes; full segments survive a power cut."""

    def __init__(self, store: SweepStore, lease: Lease) -> None:
        self._store, self._lease = store, lease
        segments = [path for path in store.list("events") if path.endswith(".jsonl")]
        self._number = len(segments)
        self._lines: list[str] = []
        self._written = 0
        self._flushed = time.monotonic()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "journal")
        self._writing: list[concurrent.futures.Future[None]] = []

    def emit(self, event: Event) -> None:
        """Queue an event. Raises ``StoreError`` if an earlier event could not be written."""
        self._lines.append(event.model_dump_json())
        self._collect()
        late = not self._writing and time.monotonic() - self._flushed > FLUSH_SECONDS
        if late or len(self._lines) >= SEGMENT_EVENTS:
            self._begin()

    def flush(self) -> None:
        """Write all pending events, and wait until they are written."""
        self._begin()
        concurrent.futures.wait(self._writing)
        self._collect()

    def _collect(self) -> None:
        while self._writing and self._writing[0].done():
            self._writing[0].result()  # a failed write stays first, so that every later call raises it too
            self._writing.pop(0)

    def _begin(self) -> None:
        full = len(self._lines) >= SEGMENT_EVENTS
        if len(self._lines) > self._written:
            text = "\n".join(self._lines) + "\n"
            self._writing.append(self._thread.submit(self._write, self._number, text, full))
            self._written = len(self._lines)
        if full:
            self._number, self._lines, self._written = self._number + 1, [], 0
        self._flushed = time.monotonic()

    def _write(self, number: int, text: str, full: bool) -> None:
        with self._lease.held():
            self._store.write(path := f"events/{number:06d}.jsonl", text.encode())
            if full:
                self._store.sync(path)
