"""Self-tests: what one is, the suite that was admitted for a task, and the pass matrix of candidates × tests."""

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
    """The subject must answer this."""

    kind: Literal["value"] = "value"
    value: str
    """A Python literal for a call; the exact standard output (trailing white space aside) for a command or program; the
    exact text of a file."""


class Rejected(Value):
    """The subject must fail or give no output."""

    kind: Literal["rejected"] = "rejected"


class Property(Value):
    """The file must have a named property of ``runner.PROPERTIES``; a check must hold."""

    kind: Literal["property"] = "property"
    name: str
    argument: str = ""


class Unknown(Value):
    """An input only: what comes out is recorded and compared between candidates."""

    kind: Literal["unknown"] = "unknown"


Expectation = Annotated[ExpectedValue | Rejected | Property | Unknown, Field(discriminator="kind")]


class Subject(Value):
    """What a test exercises."""

    kind: Literal["call", "command", "file", "program", "check"]
    """``call``: a Python function; ``command``: a shell command line; ``file``: a file's existence, form, content;
    ``program``: a C source that is compiled, then run; ``check``: a pytest function that may look at anything."""
    path: str
    """The file under test, relative to the workdir where it lies in it, else absolute; empty for a check."""
    function: str | None = None
    """The function that is called; the name of a check."""


class SelfTest(Value):
    """One test that the model wrote (or derived from the instruction's own words)."""

    id: str
    category: Category
    subject: Subject
    input: str = ""
    """A Python call expression (``call``), command-line arguments (``command``, ``program``), the Python module that
    holds the function and what it needs (``check``)."""
    stdin: str = ""
    expectation: Expectation
    reasoning: str = ""
    confidence: float = 0.5
    sentence: str = ""
    """The sentence of the instruction that the test encodes."""
    guard: bool = False
    """Holds on the untouched environment too, and must stay so."""
    discriminates: bool = True
    """A trivial state fails it: an empty file, a constant, the instruction's own words. A test that none fails cannot
    tell right from wrong."""
    weight: float = 1.0
    tester: str = ""
    """Who wrote it: a tester's label; empty for what needs no model. (Its expectation may be another's: the gate's.)"""


class GateVerdict(Value):
    """Whether a test may enter the suite, and why."""

    id: str
    admitted: bool
    reason: str


class Requirement(Value):
    """A sentence of the instruction, which may ask for something."""

    id: str
    sentence: str


class Suite(Value):
    """The frozen self-tests of one task, with all that was understood and dropped on the way."""

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
    """None where nobody looked."""
    notes: tuple[str, ...] = ()
    """What the gate saw of the suite as a whole."""
    reflections: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    engine_seconds: float = 0.0

    @property
    def covered(self) -> float | None:
        """The share of the instruction's sentences that an admitted test encodes; None where there is none."""
        return sum(map(bool, self.matrix.values())) / len(self.matrix) if self.matrix else None

    @property
    def hash(self) -> str:
        """SHA-256 of the admitted tests alone: equal suites judge equally."""
        return digest_of([test.model_dump(mode="json") for test in self.tests])


class Cell(Value):
    """What one test said of one candidate."""

    outcome: Outcome
    observed: Printed | None = None
    """What the subject answered, in a canonical form (``repr`` for calls, output for commands), cut at 2 kB; equal
    strings mean equal behaviour. None where nothing was observed."""
    detail: Printed = ""
    """For a reader: the message of a failure."""


class PassMatrix(Value):
    """Candidates × self-tests: the central artefact of a trial. ``cells[i][j]`` is candidate i under test j."""

    candidates: tuple[str, ...]
    tests: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def row(self, candidate: str) -> tuple[Cell, ...]:
        return self.cells[self.candidates.index(candidate)]

    def passed(self, candidate: str) -> int:
        return sum(cell.outcome == "pass" for cell in self.row(candidate))
