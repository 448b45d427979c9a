"""The only door to ``hc_ray.blind``. ``Verifiers`` is an actor that only the driver holds; the functions below it are
what the command line may do with datasets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hc_ray.blind.auditing import audit as audit
from hc_ray.blind.auditing import exposure as exposure
from hc_ray.blind.grading import control as _oracle
from hc_ray.blind.grading import outputs as _outputs
from hc_ray.blind.grading.outputs import REFERENCE as REFERENCE
from hc_ray.blind.grading.separate import grade_fresh
from hc_ray.blind.grading.shared import grade_shared
from hc_ray.blind.grading.verdict import Verdict, excused
from hc_ray.blind.grading.verify import Terms
from hc_ray.blind.sealing import canaries
from hc_ray.blind.sealing import vault as _vault
from hc_ray.blind.sealing.check import check as check
from hc_ray.blind.sealing.folders import new_task as new_task
from hc_ray.blind.sealing.humaneval import import_humaneval as import_humaneval
from hc_ray.blind.sealing.kept import keep_value
from hc_ray.blind.sealing.split import Split as Split
from hc_ray.blind.sealing.split import count_looks as count_looks
from hc_ray.blind.sealing.split import load_split as load_split
from hc_ray.blind.sealing.split import make_split as make_split
from hc_ray.blind.sealing.split import record_look as record_look
from hc_ray.blind.sealing.vault import SealedDataset as SealedDataset
from hc_ray.domain.candidate import Submission
from hc_ray.domain.errors import VerifierError
from hc_ray.domain.ports import SandboxPlace
from hc_ray.domain.task import Task
from hc_ray.domain.value import digest_of
from hc_ray.domain.waiting import Once
from hc_ray.machine import sealed_box, sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray.tasks.public_folder import is_here
from hc_ray_actors.backends import open_place
from hc_ray_actors.cluster import VERIFIER, laptop_slots
from hc_ray_actors.node_probe import SandboxActor
from hc_ray_actors.sandboxes import pack, unpack


class Verifiers(SandboxActor, sealed_box.Addressee):
    """Grades submissions on one node, in sandboxes that no solver's actor can list, enter or reap."""

    opens_sealed = True
    """Only its process runs without the guard that refuses sealed files (``ray_cluster.settle``)."""
    label = "verify"

    def __init__(
        self,
        backend: str,
        public_root: str | None,
        sealed_root: str | None,
        slots: int | None,
        threshold: float = 1.0,
        expected: Mapping[str, str] = {},
    ) -> None:
        """``threshold``: the least reward that passes. ``expected``: public digest → the sealed digest that the sweep
        was planned with; other tasks are graded with whatever is sealed."""
        slots = int(slots or laptop_slots()[VERIFIER])
        super().__init__(backend, public_root, slots)
        self._threshold, self._expected = threshold, expected
        self._sealed = Path(sealed_root) if sealed_root else data_root() / "sealed"
        self._share = max(1, slots - 1)
        """Concurrent gradings per task: one fewer than there are slots, so that tests that never end leave room."""
        self._shares: dict[str, asyncio.Semaphore] = {}
        self._controls = Once[Verdict]()
        self._own_places: dict[str, SandboxPlace] = {}

    async def missing(self, wanted: Mapping[str, str]) -> list[str]:
        """The tasks that this node lacks, public or sealed part, given public digest → mark of the sealed part (see
        ``sealed_marks``). Different tests of the same task count as missing, and so do equal ones with another head's
        canary."""
        here = await asyncio.to_thread(sealed_marks, self._sealed, wanted)
        return [digest for digest, mark in wanted.items() if not is_here(self._public, digest) or here[digest] != mark]

    async def install(self, digest: str, public: bytes, locked: bytes, key: bytes) -> None:
        """Unpack a task's public and sealed parts on this node; the latter replaces an older one. ``key``, encrypted
        for this process alone, opens the sealed part."""

        def lay() -> None:
            self._sealed.mkdir(parents=True, exist_ok=True, mode=0o700)
            sealed = sealed_box.unlock(sealed_box.opened(key), locked, digest)
            unpack(public, self._public / digest)
            unpack(sealed, self._sealed / digest, anew=True)

        await asyncio.to_thread(lay)

    async def grade(
        self, task: Task, submission: Submission | None, keep_output: bool, reference: bool = False
    ) -> Verdict:
        """Grade a submission. ``None`` grades the untouched environment, or with ``reference`` the task's own solution,
        run in the grading sandbox (shared grading). ``keep_output`` keeps the verifier's output, sealed (dev only).
        Raises ``VerifierError`` if no verdict could be obtained."""
        solve = reference and submission is None
        handed_in = submission.digest if submission else REFERENCE if solve else None
        output = _outputs.output_file(self._sealed, task.digest, handed_in) if keep_output else None
        terms: Terms = {**self._terms(task), "keep_output": output, "keep_solution": self._printed(task, keep_output)}
        handed_over = task.grading == "shared" and submission is not None
        spared = (await self.control(task)).restless if handed_over else None
        async with self._slot(task):
            if task.grading != "shared":
                verdict = await grade_fresh(task, submission, **terms)
            else:
                verdict = await grade_shared(task, submission, spared=spared, solve=solve, careful=handed_over, **terms)
        if verdict.failing or verdict.cause == "witness_absent":
            verdict = excused(verdict, None if reference else await self.control(task))
            verdict = verdict.model_copy(update={"failing": ()})
            if output is not None:
                await asyncio.to_thread(keep_value, output.with_suffix(".json"), verdict)
        return verdict

    def _terms(self, task: Task) -> Terms:
        expected = self._expected.get(task.digest)
        own: Terms = {
            "sealed_root": self._sealed,
            "place": self._place,
            "threshold": self._threshold,
            "expected": expected,
        }
        return own | {"own_place": self._own_place(task)} if task.grading == "separate" else own

    async def reference(self, task: Task, keep_output: bool) -> Submission:
        """The submission that the task's own solution produces. ``keep_output`` keeps its output as in ``grade``."""
        terms: Terms = {**self._terms(task), "keep_solution": self._printed(task, keep_output)}
        async with self._slot(task):
            return await _oracle.reference(task, **terms)

    def _printed(self, task: Task, keep_output: bool) -> Path | None:
        return _outputs.output_file(self._sealed, task.digest, _outputs.SOLUTION) if keep_output else None

    async def control(self, task: Task) -> Verdict:
        """The cached verdict on the task's own reference: if it fails, no fail of the task counts."""
        return await self._controls.obtain(task.digest, lambda: self._control(task))

    async def _control(self, task: Task) -> Verdict:
        async with self._slot(task):
            verdict = await _oracle.control(task, **self._terms(task))
        if verdict.passed is False:  # do not cache a fail, so that the next call tries again
            self._controls.forget(task.digest)
        return verdict

    def _own_place(self, task: Task) -> SandboxPlace:
        """Sandboxes of the task's verifier image."""
        if task.digest not in self._own_places:
            folder = _vault.own_image_folder(self._sealed, task.digest)
            self._own_places[task.digest] = open_place(self._backend, folder, label=self.label)
        return self._own_places[task.digest]

    async def leaks(self, blobs: Sequence[bytes]) -> list[str]:
        """Public digests of the tasks whose canaries occur in ``blobs``. The canaries themselves stay here."""
        return await asyncio.to_thread(self._leaks, blobs)

    def _leaks(self, blobs: Sequence[bytes]) -> list[str]:
        known = canaries.planted_tokens(self._sealed)
        return sorted(known[token] for token in canaries.find(known, blobs))

    @contextlib.asynccontextmanager
    async def _slot(self, task: Task) -> AsyncIterator[None]:
        """Hold a slot of this node, and one of the task's share."""
        share = self._shares.setdefault(task.digest, asyncio.Semaphore(self._share))
        async with share, self._slots.one():
            yield

    async def stop(self) -> None:
        await asyncio.gather(*(place.close() for place in (self._place, *self._own_places.values())))


def seal(dataset: Path, public_root: Path, sealed_root: Path) -> SealedDataset:
    """``blind.sealing.vault.seal``, which also works in a process that has run a sweep and plans the next."""
    with sealed_guard.door():
        return _vault.seal(dataset, public_root, sealed_root)


def pack_sealed(sealed_root: Path, digest: str, key: bytes) -> bytes:
    """A task's sealed folder as an encrypted tar, to send to verifiers' nodes."""
    with sealed_guard.door():
        return sealed_box.lock(key, pack(sealed_root, digest), digest)


def sealed_marks(sealed_root: Path, digests: Iterable[str]) -> dict[str, str]:
    """Public digest → digest of the sealed part below ``sealed_root``, including its canary; empty if unreadable."""
    found = {}
    with sealed_guard.door():
        for digest in digests:
            try:
                spec = _vault.load_spec(sealed_root, digest)
                found[digest] = digest_of([spec.sealed_digest, spec.canary])
            except VerifierError:
                found[digest] = ""
    return found


def unseal(sealed_root: Path, task_digest: str, submission: str | None, trial: str, *, solution: bool) -> Any:
    """``blind.outputs.unseal``: the verifier's result for a dev trial, for a person; records the look."""
    with sealed_guard.door():
        return _outputs.unseal(sealed_root, task_digest, submission, trial, solution=solution)


def leaks(sealed_root: str, blobs: Sequence[bytes]) -> bool:
    """Whether data that a process without a verifier is about to publish contains a canary."""
    with sealed_guard.door():
        return bool(canaries.find(canaries.planted_tokens(Path(sealed_root)), blobs))
