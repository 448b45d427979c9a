"""Self-tests, the admitted suite of a task, and the pass matrix of candidates × tests."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from hc_ray.domain.task import EnvironmentView
from hc_ray.domain.value import Printed, Value, digest_of

Category = Literal[
    "existence", "format", "happy_path", "boundary", "edge_case", "invalid_input", "integration", "anti_cheat"
]
CATEGORIES: tuple[Category, ...] = get_args(Category)
Outcome = Literal["pass", "fail", "error", "skipped", "timeout"]


class ExpectedValue(Value):
    """The subject must give this value."""

    kind: Literal["value"] = "value"
    value: str
    """A Python literal for a call; the exact stdout (except trailing white space) of a command or program; the exact
    text of a file."""


class Rejected(Value):
    """The subject must fail or print nothing."""

    kind: Literal["rejected"] = "rejected"


class Property(Value):
    """The file must have a property named in ``runner.PROPERTIES``; a check must pass."""

    kind: Literal["property"] = "property"
    name: str
    argument: str = ""


class Unknown(Value):
    """An input without expectation: its outputs are recorded and compared between candidates."""

    kind: Literal["unknown"] = "unknown"


Expectation = Annotated[ExpectedValue | Rejected | Property | Unknown, Field(discriminator="kind")]


class Subject(Value):
    """The subject of a test."""

    kind: Literal["call", "command", "file", "program", "check"]
    """``call``: a Python function; ``command``: a shell command line; ``file``: a file's existence, form or content;
    ``program``: a C source, compiled and run; ``check``: a pytest function that may check anything."""
    path: str
    """The file under test, relative if it is below the workdir, else absolute; empty for a check."""
    function: str | None = None
    """The function to call, or the name of a check."""


class SelfTest(Value):
    """One test, written by the model or taken from the instruction's examples."""

    id: str
    category: Category
    subject: Subject
    input: str = ""
    """A Python call expression (``call``), command-line arguments (``command``, ``program``), or the Python module with
    the function and its helpers (``check``)."""
    stdin: str = ""
    expectation: Expectation
    reasoning: str = ""
    confidence: float = 0.5
    sentence: str = ""
    """The sentence of the instruction that the test encodes."""
    guard: bool = False
    """It passes on the untouched environment and must keep passing."""
    discriminates: bool = True
    """Some trivial state fails it (an empty file, a constant, the instruction's literals). A test that all of them pass
    cannot tell right from wrong."""
    weight: float = 1.0
    tester: str = ""
    """Label of the tester that wrote it; empty if no model was needed. (Its expectation may come from the gate.)"""


class GateVerdict(Value):
    """Whether the gate admits a test, and why."""

    id: str
    admitted: bool
    reason: str


class Requirement(Value):
    """A sentence of the instruction that may state a requirement."""

    id: str
    sentence: str


class Suite(Value):
    """The frozen self-tests of one task, with the tester's notes and the dropped tests."""

    schema_version: int = 1
    key: str = ""
    task_digest: str = ""
    tests: tuple[SelfTest, ...] = ()
    dropped: tuple[SelfTest, ...] = ()
    gate: tuple[GateVerdict, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    assumptions: tuple[str, ...] = ()
    uncertainties: tuple[str, ...] = ()
    matrix: dict[str, tuple[str, ...]] = {}
    """Requirement id → ids of the tests that encode it."""
    environment: EnvironmentView | None = None
    """None if it was not examined."""
    notes: tuple[str, ...] = ()
    """The gate's remarks on the whole suite."""
    reflections: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    engine_seconds: float = 0.0

    @property
    def covered(self) -> float | None:
        """Share of the instruction's sentences that an admitted test encodes; None if there are no sentences."""
        return sum(map(bool, self.matrix.values())) / len(self.matrix) if self.matrix else None

    @property
    def hash(self) -> str:
        """SHA-256 of the admitted tests only: equal suites judge equally."""
        return digest_of([test.model_dump(mode="json") for test in self.tests])


class Cell(Value):
    """The result of one test on one candidate."""

    outcome: Outcome
    observed: Printed | None = None
    """The subject's result in canonical form (``repr`` for calls, output for commands), cut at 2 kB; equal strings mean
    equal behaviour. None if nothing was observed."""
    detail: Printed = ""
    """The failure's message, for display."""


class PassMatrix(Value):
    """Candidates × self-tests: the central artefact of a trial. ``cells[i][j]`` is candidate i under test j."""

    candidates: tuple[str, ...]
    tests: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def row(self, candidate: str) -> tuple[Cell, ...]:
        return self.cells[self.candidates.index(candidate)]

    def passed(self, candidate: str) -> int:
        return sum(cell.outcome == "pass" for cell in self.row(candidate))
