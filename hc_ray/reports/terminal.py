"""Text, tables and the live progress of a sweep on the terminal. The only module that imports rich.

On a terminal, ``Progress`` redraws one panel; elsewhere it prints one plain line per finished trial, and one whenever a
minute passes without any."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Literal

from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from hc_ray.domain.events import Event, TrialComplete
from hc_ray.domain.value import counted
from hc_ray.reports.page import TONES, VERDICTS, Section, printable
from hc_ray.reports.progress import SweepState, clock

PLAIN_WIDTH = 160
"""Width if the output is not a terminal, so that tables in files and pipes do not wrap."""
NODE_COLUMNS = ("node", "sandbox slots busy", "grading slots busy", "engines", "")
QUIET = 60.0
"""If the output is not a terminal: seconds without a line after which one reports the sweep's progress."""
_WHOLE, _LEAST, _ENOUGH = 20, 8, 24
"""In characters: the longest cell that must not fold, and the least and the ample width of a column that folds."""
MOST_NODES = 8
"""The most nodes that the live display shows."""
STYLES = {"soft": "dim", "good": "green", "bad": "red", "warn": "yellow"}
"""Tone → style."""


class _Patient(Console):
    """A console that outlives its reader (``| head``): the command continues silently."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def _console(stream: IO[str] | None = None) -> Console:
    out = stream or sys.stdout
    return _Patient(file=out, width=None if out.isatty() else PLAIN_WIDTH, highlight=False, markup=False, emoji=False)


def say(text: str = "", *, stream: IO[str] | None = None, style: str | None = None) -> None:
    """Print text; long lines fold at words."""
    _console(stream).print(Text(printable(text), style=style or ""), soft_wrap=not (stream or sys.stdout).isatty())


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[str]) -> None:
    """Print a table without rules. Right-aligns the columns in ``numbers`` and colours the words in ``TONES``."""
    grid, console, cells = _grid(columns, numbers), _console(), [[_cell(value) for value in row] for row in rows]
    for row in cells:
        grid.add_row(*row)
    wide = [max([len(column), *(row[place].cell_len for row in cells)]) for place, column in enumerate(columns)]
    if sum(min(one, _WHOLE if one <= _WHOLE else _LEAST) + 2 for one in wide) <= console.width:
        for column, one in zip(grid.columns, wide, strict=True):
            column.no_wrap = one <= _WHOLE  # keep intervals and the like on one line
    console.print(grid)


def tell(*sections: Section) -> None:
    """Print the sections of a report, except empty ones."""
    for section in sections:
        _tell(section)


def _tell(section: Section) -> None:
    style = STYLES.get(TONES.get(section.tone, section.tone))
    if section.title and (section.rows or section.after):
        say(f"\n{section.title}", style="bold")
    if section.rows:
        texts = zip(section.columns, *section.rows, strict=True)
        wide = {column: 2 + min(_ENOUGH, max(len(str(text)) for text in (column, *cells))) for column, *cells in texts}
        for column in reversed([one for one in section.spare if one in wide]):
            if sum(wide.values()) > _console().width + 2:
                del wide[column]
        shown = [place for place, column in enumerate(section.columns) if column in wide]
        rows = [[row[place] for place in shown] for row in section.rows]
        _table([section.columns[place] for place in shown], rows, section.numbers)
        if left := [column for column in section.columns if column not in wide]:
            say(f"columns left out for lack of room: {', '.join(left)}", style="dim")
    for note in section.after:
        say(note, style=style)


def _cell(value: Any) -> Text:
    text = "" if value is None else str(value)
    tone = TONES.get(text.split(":")[0].split(" ")[0], "")
    return Text(printable(text), style=STYLES.get(tone, ""))


class _Panel(Live):
    """Rich's live display, which also erases lines of its last frame that a narrowed window has folded, as far as they
    are still in the window."""

    _widths: Sequence[int] = ()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        folded = sum(max(0, wide - 1) // self.console.width for wide in self._widths)
        self._widths = [Segment.get_line_length(line) for line in self.console.render_lines(self.renderable, pad=False)]
        erase = (ControlType.ERASE_IN_LINE, 2)
        away = Control(ControlType.CARRIAGE_RETURN, erase, *((ControlType.CURSOR_UP, 1), erase) * folded)
        return [*([away] if folded else ()), *super().process_renderables(renderables)]


class Progress:
    """``ports.Events``: the live display of a sweep. Use as a context manager; ``emit`` is thread-safe."""

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        estimated_seconds: float | None = None,
        verbose: bool = False,
        stream: IO[str] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = SweepState(total=total, done=done, estimated_seconds=estimated_seconds, now=now)
        self._console = _console(stream)
        self._verbose = verbose
        self._lock = threading.RLock()
        self._live: Live | None = None
        self._spoke = self.state.began
        self._said: dict[str, str] = {}
        """Trial → its last error."""

    def __enter__(self) -> "Progress":
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = _Panel(
                get_renderable=self.render, console=self._console, refresh_per_second=4, redirect_stderr=False
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def emit(self, event: Event) -> None:
        """Update the display with one event, and print a line if it is worth one."""
        with self._lock:
            line = self._taken(event)
        if line:  # not under our lock: the drawing thread holds rich's lock, which a line needs, and waits for ours
            self._line(*line)

    def _taken(self, event: Event) -> tuple[str, str] | None:
        """The line for an event and its style; None if it is not worth one."""
        state, shown = self.state, self.state.task_of(event.trial)
        state.take(event)
        if isinstance(event, TrialComplete):
            word = VERDICTS[event.passed]
            return self._finished(event, shown, word), STYLES[TONES[word]]
        if event.type == "error":
            says, again, when = event.text.partition("; again in ")
            known, self._said[event.trial] = self._said.get(event.trial), says
            told = "the same" if says == known else says + (f" ({event.cause})" if event.cause else "")
            return f"error  {shown or 'sweep'}: {told}{again}{when}", "red"
        if self._verbose and event.type == "action":
            return f"       {shown}: {event.name} {_brief(event.detail)}".rstrip(), "dim"
        if self._live is None and state.running and state.now() - self._spoke >= QUIET:
            under_way = f"{counted(len(state.running), 'trial')} running, {state.tokens:,} tokens"
            return f"         {under_way}, {clock(state.elapsed())} elapsed", "dim"
        return None

    def doing(self, step: str) -> None:
        """Show a step outside the trials, until another step begins or the display ends."""
        with self._lock:
            self.state.begin_step(step)
            if self._live is None:
                self._line(f"{step} …", "dim")

    def _step_taken(self) -> str:
        """The current step outside the trials, and how long it has taken."""
        return f"{self.state.step}, {clock(self.state.now() - self.state.step_began)}"

    def _finished(self, event: TrialComplete, shown: str, word: str) -> str:
        progress = "" if event.progress is None else f", self-tests {event.progress:.0%}"
        done, total, left = self.state.done, self.state.total, self.state.remaining_seconds()
        eta = "" if left is None or done >= total else f", {clock(left)} left"
        return f"{word:<9}{shown or event.trial}{progress}  [{done}/{total}{eta}]"

    def _line(self, text: str, style: str) -> None:
        self._spoke = self.state.now()
        self._console.print(Text(printable(text), style=style), soft_wrap=self._live is None)

    def render(self) -> RenderableType:
        """The current panel: overall bar, then the running trials."""
        with self._lock:
            state = self.state
            if not state.total and state.step is not None:
                return Text(self._step_taken(), style="dim")
            left = state.remaining_seconds()
            rate = state.tokens_per_second()
            head = Table.grid(padding=(0, 2))
            head.add_row(
                ProgressBar(total=max(1, state.total), completed=state.done, width=36),
                Text(f"{state.done}/{state.total} trials", style="bold"),
                Text(f"{state.passed} passed", style="green"),
                Text(f"{state.failed} failed", style="red"),
                Text(f"{state.unscored} unscored", style="yellow" if state.unscored else "dim"),
            )
            late = state.step is None and state.silence() > QUIET
            facts = [f"{clock(state.elapsed())} elapsed"]
            if state.step is None:
                facts.append("estimating time left" if left is None else f"about {clock(left)} left")
            told = "" if rate is None or state.step is not None else f" ({rate:.0f} tokens/s)"
            facts.append(f"{state.tokens:,} tokens{told}")
            if late:
                facts.append(f"no event for {clock(state.silence())}")
            parts: list[RenderableType] = [head, Text(" · ".join(facts), style="yellow" if late else "dim")]
            if state.step is not None:
                parts.append(Text(self._step_taken(), style="bold"))
            elif state.running:
                parts += [_short(line, "dim") for line in (*state.crew.engines, *state.crew.queues)]
                if state.crew.tells:
                    parts.append(self._nodes())
                parts.append(self._running())
            return Group(*parts)

    def _nodes(self) -> Table:
        grid = _grid(NODE_COLUMNS, short=True)
        nodes = self.state.crew.nodes
        for one in nodes[:MOST_NODES]:
            told = (_short(part) for part in (one.node[:24], one.sandboxes, one.gradings, one.engines[:30]))
            grid.add_row(*told, _short(one.note[:80], "yellow"))
        if len(nodes) > MOST_NODES:
            grid.add_row(_short(f"and {len(nodes) - MOST_NODES} more", "dim"))
        return grid

    def _running(self) -> Table:
        grid = _grid(("running task", "agent", "stage", "best self-tests", "time"), short=True)
        crew = self.state.crew
        beside = len(crew.engines) + len(crew.queues) + (min(len(crew.nodes), MOST_NODES + 1) + 1 if crew.tells else 0)
        room = max(3, self._console.height - 8 - beside)
        trials = sorted(self.state.running.values(), key=lambda trial: trial.started)
        for trial in trials[:room]:
            seed = f" #{trial.seed}" if trial.seed else ""
            told = (_short(part) for part in (f"{trial.task}{seed}"[:40], trial.agent, trial.stage[:36]))
            grid.add_row(*told, _score(trial.best), _short(clock(self.state.now() - trial.started)))
        if len(trials) > room:
            grid.add_row(_short(f"and {len(trials) - room} more", "dim"))
        return grid


@contextlib.contextmanager
def waiting(what: str, **shown: Any) -> Iterator[None]:
    """Show what is being waited for and how long it takes: in a panel, or elsewhere with a line at its start and end.
    ``shown``: arguments of ``Progress``."""
    with Progress(0, **shown) as progress:
        progress.doing(what)
        try:
            yield
        finally:
            if progress._live is None:
                progress._line(progress._step_taken(), "dim")


def _short(text: str, style: str = "") -> Text:
    """One line, cut at the window's edge."""
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _grid(columns: Sequence[str], numbers: Sequence[str] = (), *, short: bool = False) -> Table:
    """``short``: cells come from ``_short``, and the longest are cut first; otherwise long cells wrap."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        head = _short(column, "dim") if short else Text(column, style="dim")
        grid.add_column(head, justify=justify, overflow="fold")
    return grid


def _score(best: float | None) -> Text:
    if best is None:
        return _short("none yet", "dim")
    full = round(best * 10)
    return _short("█" * full, "green") + Text("░" * (10 - full), style="dim") + Text(f" {best:.0%}")


def _brief(detail: dict[str, Any]) -> str:
    text = " ".join(f"{key}={value}" for key, value in detail.items())
    return text if len(text) <= 100 else text[:97] + "..."
