"""Signals that end a sweep as Ctrl-C does."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator


class Signals:
    """SIGINT, SIGTERM and a closed terminal cancel the running task, but only where it may be cancelled, and once
    there: who presses Ctrl-C twice, or is sent the signal by a wrapper as well as by the terminal, does not interrupt
    the closing. (``ray.init`` has put its own handler on SIGTERM.)"""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancels = task, False
        self.seen = 0
        """How many signals came so far."""
        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as ``nohup`` sets it: the sweep is to go on
            ends.append(signal.SIGHUP)
        for number in ends:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                asyncio.get_running_loop().add_signal_handler(number, self._came)

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """Where the first signal cancels the task."""
        self._cancels = True
        try:
            yield
        finally:
            self._cancels = False

    def _came(self) -> None:
        self.seen += 1
        if self._cancels:
            self._cancels = False
            self._task.cancel()


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """SIGINT does nothing meanwhile: for a closing that takes seconds and, half done, would leave processes."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
