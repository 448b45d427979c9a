import io
import re
import threading

import pytest
from rich.console import Console

from hc_ray.domain import events
from hc_ray.reports import terminal
from hc_ray.reports.page import Section, printable
from hc_ray.reports.progress import STARTING, SweepState, clock
from hc_ray.reports.terminal import Progress, say, tell, waiting
from tests.fakes.screen import drawn, said


class Clock:
    """A clock that tests move by hand."""

    time = 0.0

    def __call__(self):
        return self.time


def started(name: str, config: str = "") -> events.TrialStart:
    return events.TrialStart(trial=name, task=name, agent="hc", seed=0, config=config)


def beat(name: str, tokens: int, best: str | None = None, progress: float = 0.0) -> events.Heartbeat:
    return events.Heartbeat(trial=name, turn=1, max_turns=9, progress=progress, best=best, prompt_tokens=tokens)


def used(tokens: int) -> events.EngineUse:
    return events.EngineUse(engine="e", slots=1, seconds=10, busy=10, queued=0, requests=1, cached_tokens=0,
                            prompt_tokens=tokens, completion_tokens=0)  # fmt: skip


def test_without_a_terminal_there_is_one_line_a_finished_trial_and_one_a_step_after_them():
    stream = io.StringIO()
    with Progress(3, stream=stream) as progress:
        for name, passed in (("a", True), ("b", False), ("c", None)):
            progress.emit(started(name))
            for tokens in range(50):
                progress.emit(beat(name, tokens))
            progress.emit(events.Action(trial=name, name="submit", detail={"candidate": "c0.0"}))
            progress.emit(events.TrialComplete(trial=name, passed=passed, progress=0.5))
    lines = stream.getvalue().splitlines()
    assert [line.split()[:3] for line in lines] == [["pass", "a", "hc,"], ["fail", "b", "hc,"],
                                                    ["unscored", "c", "hc,"]]  # fmt: skip
    assert "[3/3]" in lines[-1]
    stream = io.StringIO()
    with Progress(1, stream=stream) as progress:
        progress.doing("writing the report and the tables")
        progress.doing("exporting to MLflow")
    assert stream.getvalue().splitlines() == ["writing the report and the tables …", "exporting to MLflow …"]


def test_without_a_terminal_a_minute_without_a_line_is_ended_by_one_that_says_how_far_the_sweep_is():
    stream, now = io.StringIO(), Clock()
    with Progress(3, stream=stream, now=now) as progress:
        progress.doing(STARTING)
        progress.emit(started("a"))
        for now.time in range(0, 130):
            progress.emit(used(1))
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "starting engines and sandboxes …",
        "1 trial running, 61 tokens, 1 min 00 s elapsed",
        "1 trial running, 121 tokens, 2 min 00 s elapsed",
    ]


def test_errors_are_always_told_and_actions_if_asked_for():
    stream = io.StringIO()
    with Progress(1, stream=stream, verbose=True) as progress:
        progress.emit(started("a"))
        progress.emit(events.Action(trial="a", name="submit", detail={"candidate": "c0.0"}))
        progress.emit(events.ErrorEvent(trial="a", text="the engine died", cause="EngineError"))
        progress.emit(events.ErrorEvent(trial="a", text="it is full; again in 1.0 s"))
        progress.emit(events.ErrorEvent(trial="a", text="it is full; again in 3.0 s"))
    assert "submit candidate=c0.0" in stream.getvalue() and "the engine died (EngineError)" in stream.getvalue()
    *_, first, second = [line.partition(": ")[2] for line in stream.getvalue().splitlines()]
    assert (first, second) == ("it is full; again in 1.0 s", "the same; again in 3.0 s")
    with Progress(1, stream=stream, verbose=True) as progress:
        progress.emit(events.Action(trial="a", name="sh", detail={"command": "echo \x1b]0;owned"}))
        progress.emit(events.ErrorEvent(trial="a", text="it printed \x1b[2J"))
    assert "\x1b" not in stream.getvalue() and "it printed ␛[2J" in stream.getvalue()


def test_the_panel_shows_running_trials_with_stage_and_score_and_after_the_last_what_is_done():
    now = Clock()
    progress = Progress(5, stream=io.StringIO(), estimated_seconds=600, now=now)
    now.time = 7
    progress.emit(events.PostState(kind="sandbox_slot", node="a", state="starting"))
    assert "starting engines and sandboxes, 7 s" in drawn(progress)
    now.time = 0
    progress.emit(started("a", "wide"))
    assert "starting engines" not in drawn(progress)
    progress.emit(events.VerifyComplete(trial="a", candidate="c0.1", passing=3, total=4, progress=0.75))
    text = drawn(progress)
    for part in ("hc (wide)", "0/5 trials", "75%", "self-tests of c0.1: 3/4", "about 10 min 00 s left"):
        assert part in text
    now = Clock()
    progress = Progress(1, stream=io.StringIO(), now=now)
    progress.emit(started("a"))
    progress.emit(events.TrialComplete(trial="a", passed=True))
    now.time = 100
    progress.doing("closing sandboxes and engines")
    now.time = 103
    progress.doing("exporting to MLflow")
    now.time = 107
    text = drawn(progress)
    assert "1/1 trials" in text and "exporting to MLflow, 4 s" in text and "closing" not in text
    # There is nothing left to estimate, and nobody who should beat.
    assert "left" not in text and "heartbeat" not in text


def test_the_panel_can_be_drawn_while_a_line_waits_for_the_terminal(monkeypatch):
    progress, waits, drawn_ = Progress(1, stream=io.StringIO()), threading.Event(), threading.Event()
    monkeypatch.setattr(progress._console, "print", lambda *_, **__: (waits.set(), drawn_.wait(20)))
    done = events.TrialComplete(trial="a", passed=True, progress=None)
    speaker = threading.Thread(target=progress.emit, args=(done,))
    painter = threading.Thread(target=lambda: (progress.render(), drawn_.set()), daemon=True)
    speaker.start()
    assert waits.wait(20)
    painter.start()
    assert drawn_.wait(10)
    speaker.join(20)


def test_what_is_waited_for_is_told_with_the_time_that_it_takes(monkeypatch):
    stream, now = io.StringIO(), Clock()
    with waiting("asking the meta-reasoner", stream=stream, now=now):
        assert stream.getvalue() == "asking the meta-reasoner …\n"
        now.time = 75
    assert stream.getvalue().splitlines()[1:] == ["asking the meta-reasoner, 1 min 15 s"]
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    stream.isatty = lambda: True
    with waiting("asking the meta-reasoner", stream=stream, now=now):
        now.time = 79
    assert "…" not in stream.getvalue() and "asking the meta-reasoner, 4 s" in stream.getvalue()


class Window:
    """A terminal of so many columns, which folds long lines anew when it is narrowed; of what it is sent it knows text,
    line ends, and how to go up and erase a line."""

    def __init__(self, columns: int) -> None:
        self.columns, self.lines = columns, [""]

    def take(self, sent: str) -> None:
        for part in re.findall(r"\x1b\[[\d;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", sent):
            if part.endswith("A"):
                self.lines.pop()
            elif part.endswith("K"):
                self.lines[-1] = ""
            elif part == "\n":
                self.lines.append("")
            elif not part.startswith(("\x1b", "\r")):
                self.lines[-1] += part

    def narrow(self, columns: int) -> None:
        self.columns = columns
        folded = [[line[at : at + columns] for at in range(0, len(line) or 1, columns)] for line in self.lines]
        self.lines = [part for parts in folded for part in parts]


def test_a_window_that_is_narrowed_keeps_no_rest_of_an_earlier_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "_console", lambda stream: Console(file=stream, force_terminal=True, width=80))
    stream, window = io.StringIO(), Window(80)
    progress = Progress(5, stream=stream, estimated_seconds=600)
    with progress:
        progress.emit(started("a-task-with-a-long-name", "a-long-config"))
        for columns in (80, 60, 41):
            window.narrow(columns)
            progress._console.width = columns
            progress._live.refresh()
            window.take(stream.getvalue())
            stream.seek(stream.truncate(0))
            shown = "\n".join(window.lines)
            assert shown.count("trials") == shown.count("a-task") == shown.count("elapsed") == 1, shown
            assert "none yet" in shown and "0 s" in window.lines[-1], shown


def test_tokens_are_counted_as_answers_come_and_a_self_score_never_falls():
    now = Clock()
    state = SweepState(total=2, now=now)
    assert state.tokens_per_second() is None
    state.take(started("a"))
    for now.time, tokens in ((5, 100), (6, 0), (10, 300)):
        state.take(used(tokens))
        state.take(beat("a", 5))
    assert state.tokens == 400 and state.running["a"].tokens == 5 and state.tokens_per_second() == pytest.approx(40.0)
    now.time = 100
    assert state.tokens_per_second() == 0
    state = SweepState(total=1, now=Clock())
    state.take(started("a"))
    state.take(beat("a", 5))
    state.take(beat("a", 5, best="c0.0", progress=0.0))
    assert state.running["a"].best is None
    state.take(beat("a", 5, best="c0.0", progress=0.6))
    state.take(events.VerifyComplete(trial="a", candidate="c1.0", passing=1, total=4, progress=0.25))
    assert state.running["a"].best == 0.6


def test_time_left_follows_the_plan_first_then_this_runs_own_pace_and_never_promises_an_end_at_once():
    now = Clock()
    state = SweepState(total=20, done=10, estimated_seconds=100, now=now)
    now.time = 10
    assert state.remaining_seconds() == pytest.approx(90)
    for index in range(5):
        now.time = 10 + index
        state.take(events.TrialComplete(trial=str(index), passed=True))
    now.time = 20
    # Five of this run in 20 s, five to go; the ten found done say nothing.
    assert state.remaining_seconds() == pytest.approx(20) and SweepState(total=3, now=now).remaining_seconds() is None
    now = Clock()
    state = SweepState(total=2, estimated_seconds=5, now=now)
    now.time = 30
    assert state.remaining_seconds() is None
    state.take(events.TrialComplete(trial="a", passed=True))
    assert state.remaining_seconds() == pytest.approx(30)


def test_a_table_without_room_leaves_out_its_spare_columns_from_the_last_on_and_names_them(monkeypatch):
    section = Section("", ("agent", "passes", "tokens", "seconds"), [("hc", "0.50", "1,200", "509")],
                      spare=("seconds", "passes"))  # fmt: skip
    for width, left in ((40, []), (24, ["passes"]), (17, ["passes, seconds"]), (8, ["passes, seconds"])):
        monkeypatch.setattr(terminal, "PLAIN_WIDTH", width)
        head, *_ = lines = said(tell, section).splitlines()
        assert ("passes" in head, "seconds" in head) == (not left, left in ([], ["passes"])), lines
        assert [line.partition(": ")[2] for line in lines if "lack of room" in line] == left


def test_an_interval_stands_on_one_line_beside_a_text_that_folds(monkeypatch):
    monkeypatch.setattr(terminal, "PLAIN_WIDTH", 53)
    rows = [("hc", "wide: temperatures=[0.7,0.9], samples=8", "0.50 [0.22, 0.78]", "not measured")]
    lines = said(tell, Section("", ("agent", "config", "blind pass", "self-test pass"), rows)).splitlines()
    assert "0.50 [0.22, 0.78]" in lines[1] and "not measured" in lines[1] and "samples=8" in lines[-1]
    assert max(map(len, lines)) <= 53


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (190, "3 min 10 s"), (7500, "2 h 05 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_what_a_model_wrote_cannot_command_the_terminal() -> None:
    evil = "a\x1b]0;title\x07b\x9b31mc\rd\x7f\u202ee"
    shown = said(say, evil) + said(tell, Section("", ("x",), [(evil,)]))
    assert not set("\x1b\x07\x9b\r\x7f\u202e") & set(shown) and shown.count("␛]0;title␇b") == 2
    assert printable("one\r\n\ttwo é 漢") == "one\n\ttwo é 漢"
