"""A trial's folder in the sweep directory: makes its files from the record, and commits them."""

import asyncio
from collections.abc import Mapping
from typing import Any

from hc_ray.domain.credentials import Censor
from hc_ray.domain.trial import WITHOUT_MODEL, ExceptionInfo, TrialResult
from hc_ray.domain.value import readable_json
from hc_ray.search.trial_outcome import TrialOutcome
from hc_ray.stores.sweep_directory import SweepStore, parquet
from hc_ray_actors.driver.journal import Lease
from hc_ray_actors.driver.resumption import EVIDENCE
from hc_ray_actors.driver.trajectory import trajectory
from hc_ray_actors.driver.trial_record import Record

_PACKED = (".parquet", ".tar")
"""Only candidates have these files, and they had no access to secrets."""


DIFFERENCES = "artifacts/states"
"""Folder of a trial's candidates, as tars named by the digests of their files."""


def files(record: Record, result: TrialResult, censor: Censor) -> dict[str, bytes]:
    """Path → content of a trial's files; ``result.json`` comes last."""
    found = {"config.json": readable_json(record.key.model_dump(mode="json"))}
    outcome = record.outcome
    if outcome is not None:
        model = (result.agent_info.model_info or {}).get("name")
        found["agent/trajectory.json"] = readable_json(trajectory(record.key, outcome, model))
        found["agent/candidates.json"] = readable_json([one.model_dump(mode="json") for one in outcome.candidates])
        found |= {f"{DIFFERENCES}/{digest}.tar": tar for digest, tar in outcome.differences.items()}
        if outcome.suite is not None:
            found["agent/suite.json"] = outcome.suite.model_dump_json(indent=1).encode()
        if outcome.matrix is not None:
            found["agent/matrix.parquet"] = parquet(matrix_rows(outcome), MATRIX_COLUMNS)
            # The matrix's columns, which for ``best_of_n`` are not a suite's; replaying a selector needs them.
            found["agent/tests.json"] = readable_json([test.model_dump(mode="json") for test in outcome.matrix_tests])
    if record.submissions:
        found["artifacts/submission.tar"] = record.submissions[-1].tar
    if result.exception_info is not None:
        found[EVIDENCE] = _evidence(result.exception_info).encode()
    found["result.json"] = result.model_dump_json(indent=1).encode()
    return {path: data if path.endswith(_PACKED) else censor.clean(data) for path, data in found.items()}


def plain(record: Record, packed: Mapping[str, bytes]) -> list[bytes]:
    """A trial's files in scannable form: the matrix as JSON (parquet is compressed), and without the oracle's
    submission, which may contain the solution."""
    kept = [data for path, data in packed.items() if not path.endswith(_PACKED)]
    if record.outcome is not None:
        kept += [
            readable_json(matrix_rows(record.outcome)),
            readable_json([one.model_dump(mode="json") for one in record.outcome.exchanges]),
        ]
    if record.key.agent not in WITHOUT_MODEL:
        tars = [submission.tar for submission in record.submissions]
        tars += record.outcome.differences.values() if record.outcome else ()
        kept += dict.fromkeys(tars)  # a submission usually equals a candidate's whole difference
    return kept


async def keep(store: SweepStore, lease: Lease, record: Record, packed: Mapping[str, bytes]) -> None:
    """Commit a trial in a thread, since the disk may block. A started commit finishes even if the task is cancelled.
    Raises ``StoreError`` if the disk is full or another start has taken over."""

    def held() -> None:
        with lease.held():
            commit(store, record, packed)

    writing = asyncio.ensure_future(asyncio.to_thread(held))
    try:
        await asyncio.shield(writing)
    finally:
        await asyncio.wait([writing])


def commit(store: SweepStore, record: Record, packed: Mapping[str, bytes]) -> None:
    """Write a trial's folder, and its suite for other trials; ``result.json`` comes last and commits the trial."""
    if record.outcome is not None and record.outcome.suite is not None:
        shared = f"suites/{record.outcome.suite.key}.json"
        if not store.exists(shared):
            store.write(shared, packed["agent/suite.json"])
    folder = f"trials/{record.key.name}"
    for path, data in packed.items():
        store.write(f"{folder}/{path}", data)
    if EVIDENCE not in packed:
        store.remove(f"{folder}/{EVIDENCE}")


MATRIX_COLUMNS = ("candidate", "test", "category", "outcome", "observed", "detail")


def matrix_rows(outcome: TrialOutcome) -> list[dict[str, Any]]:
    """The pass matrix with one row per cell."""
    matrix = outcome.matrix
    if matrix is None:
        return []
    categories = {test.id: test.category for test in outcome.matrix_tests}
    return [
        {"candidate": candidate, "test": test, "category": categories.get(test), **cell.model_dump()}
        for candidate, row in zip(matrix.candidates, matrix.cells, strict=True)
        for test, cell in zip(matrix.tests, row, strict=True)
    ]


def _evidence(fault: ExceptionInfo) -> str:
    return f"{fault.occurred_at} {fault.exception_type}: {fault.exception_message}\n{fault.exception_traceback}"
