"""Signals that end a sweep like Ctrl-C."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

from hc_ray.machine.cleanup import ENDING, PATIENCE, passed_over


class Signals:
    """SIGINT, SIGTERM and a closed terminal cancel the running task, but only inside ``cancelling``, and only once: a
    second Ctrl-C, or a signal from both a wrapper and the terminal, does not interrupt the clean-up unless that takes
    longer than ``PATIENCE``."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancels, self._first = task, False, 0.0
        self.seen = 0
        """Number of signals so far."""
        for number in ENDING:
            if passed_over(number):
                continue
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self._came)

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """A block in which the first signal cancels the task."""
        self._cancels = True
        try:
            yield
        finally:
            self._cancels = False

    def _came(self) -> None:
        now = time.monotonic()
        self._first = self._first if self.seen else now
        self.seen += 1
        if self._cancels or now - self._first > PATIENCE:
            self._cancels = False
            self._task.cancel()
