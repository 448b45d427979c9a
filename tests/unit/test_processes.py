"""What a command's leader does to end all that the command started."""

import itertools
from types import SimpleNamespace

import pytest

from hc_ray.sandboxes.inside import leader, processes


@pytest.mark.parametrize("alone", [True, False])
def test_everybody_is_stopped_at_once_only_where_nobody_else_can_be_seen(alone, monkeypatch):
    told: list[tuple[int, int]] = []
    crowd = itertools.chain([list(range(10**7, 10**7 + 100))] * 2, itertools.repeat([]))
    monkeypatch.setattr(processes, "descendants", lambda root: next(crowd))
    monkeypatch.setattr(processes, "_signal", lambda process, number: told.append((process, number)))
    assert processes.kill_below(5.0, lambda: None, alone=alone) == 0
    assert any(process == -1 for process, _ in told) == alone
    assert {process for process, _ in told} >= set(range(10**7, 10**7 + 100))


class Ended(leader.Leader):
    """A command that has ended, and something that it left behind holds its streams; ``turns``: after how many seconds
    something woke its leader, and whether that was output."""

    is_open = True

    def __init__(self, *turns: tuple[float, bool]) -> None:
        super().__init__({"limit": 0}, b"")
        self.status, self.now, self.turns = 0, 0.0, list(turns)

    def reap(self) -> bool:
        return True

    def turn(self, timeout: float | None) -> bool:
        after, output = self.turns.pop(0) if self.turns else (timeout or 0.0, False)
        self.now += min(after, timeout or 0.0)
        return output


@pytest.mark.parametrize(("turns", "until"), [
    ([(0.01, False)], 0.05),  # the end of an orphan
    ([(0.01, False), (0.03, True), (0.01, False)], 0.04 + 0.05),
    ([(0.04, True)] * 100, leader.DRAIN_SECONDS),
])  # fmt: skip
def test_after_a_commands_end_its_streams_are_read_until_they_are_quiet_or_never_will_be(monkeypatch, turns, until):
    ended = Ended(*turns)
    monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: ended.now))
    assert not ended._wait(60.0) and ended.now == pytest.approx(until)
