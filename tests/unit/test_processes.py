"""What a command's leader does to end all that the command started."""

import itertools

import pytest

from hc_ray.sandboxes.inside import processes


@pytest.mark.parametrize("alone", [True, False])
def test_everybody_is_stopped_at_once_only_where_nobody_else_can_be_seen(
    alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    crowd = itertools.chain([list(range(10**7, 10**7 + 100))] * 2, itertools.repeat([]))
    monkeypatch.setattr(processes, "descendants", lambda root: next(crowd))
    monkeypatch.setattr(processes, "_signal", lambda process, number: told.append((process, number)))
    assert processes.kill_below(5.0, lambda: None, alone=alone) == 0
    assert any(process == -1 for process, _ in told) == alone
    assert {process for process, _ in told} >= set(range(10**7, 10**7 + 100))
