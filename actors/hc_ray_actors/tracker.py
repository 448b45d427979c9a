"""The only MLflow writer of a sweep, in a process of its own: importing MLflow takes seconds, and nobody waits for
it."""

import asyncio
import contextlib
import os
from typing import Any

NICE = 10


class Tracker:
    """Exports a sweep's summary to a tracking server."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    async def prepare(self) -> None:
        """Import MLflow and open its database, behind everybody else who wants the processor."""
        with contextlib.suppress(OSError):
            os.nice(NICE)
        from hc_ray.stores.mlflow_tracker import MlflowTracker

        await asyncio.to_thread(MlflowTracker(self._uri).prepare)

    async def export(self, summary: dict[str, Any], status: str) -> str:
        """Write the sweep's runs as they are now; ``status``: ``RUNNING``, ``FINISHED`` or ``KILLED``. Answers the id
        of the parent run. Raises whatever the tracker raises: the sweep directory is the truth, the caller reports and
        goes on."""
        return await asyncio.to_thread(export, self._uri, summary, status)


def export(uri: str, summary: dict[str, Any], status: str = "FINISHED") -> str:
    """Write the runs of a sweep's summary, with its report; answers the id of the parent run."""
    from hc_ray.reports.html_report import sentence_of
    from hc_ray.reports.report import html
    from hc_ray.stores.mlflow_tracker import MlflowTracker

    note = "\n\n".join(sentence_of(item) for item in summary["comparisons"])
    return MlflowTracker(uri).export(summary, page=html(summary), note=note, status=status)
