"""The base of both suite writers: their inputs, the gate, and the frozen suite with its costs.

A test is admitted if it parses, can fail, and is stable on the untouched environment. A test that passes there becomes
a guard; one that a trivial state passes does not discriminate."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hc_ray.agent.budget import Asking
from hc_ray.agent.role import Exchange
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.events import TestgenProgress
from hc_ray.domain.ports import Events
from hc_ray.domain.suite import CATEGORIES, Category, Cell, GateVerdict, Requirement, SelfTest, Suite
from hc_ray.domain.task import Task
from hc_ray.selftests import gate
from hc_ray.selftests.coverage import quoted_in
from hc_ray.selftests.runner import STOPPED, SuiteRuns
from hc_ray.selftests.trivial_states import missing, named_paths, trivial_states
from hc_ray.spec.markdown import block_sentences, blocks, titles
from hc_ray.spec.spec import Spec

_LISTED, _IN_A_LINE = 25, 3
"""The most uncovered sentences in a reflection, as a list and as a line."""
OWNER = "testgen"
"""Owner of a suite's exchanges."""


@dataclass
class Writer(ABC):
    """Writes one suite."""

    task: Task
    spec: Spec
    config: TestgenConfig
    seed: int
    asking: Asking
    forks: SandboxForks
    events: Events
    place: str = "suite"
    """Distinguishes the first suite from tests added later."""
    known: Sequence[SelfTest] = ()
    """Existing tests."""

    lists: ClassVar[bool] = False
    """Whether a reflection may be a list."""

    def __post_init__(self) -> None:
        self.purse, self._runs = self.asking.purse, SuiteRuns(self.forks)
        self.askings = (self.asking, *(Asking(other, self.purse) for other in self.asking.role.others))
        """All testers of a suite share one purse."""
        self.notes: list[str] = []
        self.reflections: list[str] = []
        self.uncertainties: tuple[str, ...] = ()
        self.reasons: dict[str, str] = {}
        """Test id → the gate's reason."""

    async def write(self, key: str) -> Suite:
        """Write, gate and freeze the suite."""
        made = self._numbered(await self._made())
        kept, beyond = gate.capped(await self._gated(made), self.config)
        self.reasons.update(beyond)
        generated, admitted = Counter(test.category for test in made), Counter(test.category for test in kept)
        for category in CATEGORIES:
            if generated[category]:
                event = TestgenProgress(category=category, generated=generated[category], admitted=admitted[category])
                self.events.emit(event)
        ids, sentences = {test.id for test in kept}, dict.fromkeys(self.spec.sentences)
        # Leave it to the model which of the sentences state a requirement.
        asked = tuple(Requirement(id=f"r{i}", sentence=one) for i, one in enumerate(sentences, start=1))
        return Suite(
            key=key,
            task_digest=self.task.digest,
            tests=kept,
            dropped=tuple(test for test in made if test.id not in ids),
            gate=tuple(GateVerdict(id=test.id, admitted=test.id in ids, reason=self.reasons[test.id]) for test in made),
            requirements=asked,
            assumptions=self._assumptions(kept),
            uncertainties=self.uncertainties,
            matrix={one.id: tuple(test.id for test in kept if test.sentence == one.sentence) for one in asked},
            environment=self.spec.snapshot,
            notes=tuple(self.notes),
            reflections=tuple(self.reflections),
            prompt_tokens=self.purse.prompt_tokens,
            completion_tokens=self.purse.completion_tokens,
            engine_seconds=self.purse.engine_seconds,
        )

    @abstractmethod
    async def _made(self) -> list[SelfTest]:
        """All tests, in order, before the gate."""

    @abstractmethod
    def _assumptions(self, kept: Sequence[SelfTest]) -> tuple[str, ...]:
        """Remarks for display besides the kept tests."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All prompts and answers."""
        return tuple(one for asking in self.askings for one in asking.exchanges)

    @property
    def reflected(self) -> str:
        """What the last round left uncovered; empty in the first round."""
        return self.reflections[-1] if self.reflections else ""

    def _numbered(self, tests: Sequence[SelfTest]) -> tuple[SelfTest, ...]:
        counts: Counter[str] = Counter()
        prefix = "" if self.place == "suite" else f"{self.place}-"
        numbered = []
        for test in tests:
            counts[test.category] += 1
            numbered.append(test.model_copy(update={"id": f"{prefix}{test.category}-{counts[test.category]}"}))
        return tuple(numbered)

    def _short(self, tests: Sequence[SelfTest], categories: Sequence[Category] = CATEGORIES) -> list[Category]:
        """Categories with fewer tests than configured."""
        counts = Counter(test.category for test in tests)
        return [one for one in categories if counts[one] < self.config.tests_per_category_min]

    def _reflect(self, tests: Sequence[SelfTest], short: Sequence[Category], number: int) -> None:
        """Write the reflection for the next round. ``short``: categories with too few tests."""
        covered = {test.sentence for test in tests}
        said = blocks(self.spec.instruction)
        covered |= titles(said)
        covered |= {line for block in said if block.kind == "code" for line in block_sentences(block)}  # shows
        covered |= {one for one in self.spec.sentences if any(quoted_in(one, test.reasoning) for test in tests)}
        missing = [sentence for sentence in dict.fromkeys(self.spec.sentences) if sentence not in covered]
        parts = [f"Round {number}: {len(tests)} tests."]
        if short:
            parts.append(f"Fewer than {self.config.tests_per_category_min} tests of: {', '.join(short)}.")
            parts += ["A task need not have them all."] if self.lists else []
        if missing:
            listed = "".join(f"\n- {one}" for one in missing[:_LISTED])
            told = listed if self.lists else " " + " ".join(missing[:_IN_A_LINE])
            parts.append(f"Sentences that no test covers yet, where they ask for anything:{told}")
        self.reflections.append(" ".join(parts))

    # The gate

    async def _gated(self, made: Sequence[SelfTest]) -> list[SelfTest]:
        """The admitted tests, marked as guards or discriminating."""
        admitted, reasons = gate.screen(made)
        self.reasons.update(reasons)
        if self.config.gate == "off" or not admitted:
            return list(admitted)
        runs = await self._runs.repeat(f"{self.place}-gate", {}, admitted, repeats=gate.STABLE_RUNS)
        standing = [
            settled for test, cells in zip(admitted, runs, strict=True)
            if (settled := self._on_untouched(test, cells)) is not None
        ]  # fmt: skip
        standing = await self._against_trivial(standing)
        standing = await self._read_again(standing)
        judging = [test for test in standing if test.expectation.kind != "unknown"]
        able = sum(test.discriminates and not test.guard for test in judging)
        self.notes.append(
            f"{len(standing)} tests passed the gate, before the limits per category: "
            f"{sum(test.guard for test in judging)} guards, {able} discriminating"
            f"{'' if able else ': the suite is weak'}."
        )
        return standing

    async def _read_again(self, tests: Sequence[SelfTest]) -> list[SelfTest]:
        """The tests that a second reading leaves; all without one."""
        return list(tests)

    def _on_untouched(self, test: SelfTest, cells: Sequence[Cell]) -> SelfTest | None:
        """Judge a test by three runs on the untouched environment; None if it is dropped."""
        check = test.subject.kind == "check"
        if cells[0] == STOPPED:
            self.reasons[test.id] = "was not run here: others ran out of time"
        elif len({(cell.outcome, None if check else cell.observed) for cell in cells}) > 1:
            self.reasons[test.id] = "unstable: it answered differently in repeated runs"
        elif cells[0].outcome == "skipped":
            self.reasons[test.id] = f"cannot run here: {cells[0].detail[:160]}"
        elif check and (lacks := self._lacks(cells[0])) is not None:
            self.reasons[test.id] = f"cannot run here: the environment has no module {lacks}"
        elif cells[0].outcome == "pass":
            self.reasons[test.id] = "a guard: it passes on the untouched environment"
            return test.model_copy(update={"guard": True, "discriminates": False})
        else:
            return test
        return None

    def _lacks(self, cell: Cell) -> str | None:
        """A module that a check imports but that the environment lacks and the task does not mention."""
        _, found, rest = cell.detail.partition("No module named '")
        name = rest.partition("'")[0].partition(".")[0]
        return name if found and name not in self.spec.instruction else None

    async def _against_trivial(self, tests: Sequence[SelfTest]) -> list[SelfTest]:
        """Mark tests that a trivial state passes, except shown answers and rejections."""
        untouched = partial(self.forks.in_fork, f"{self.place}-named", [])
        lacking = await missing(untouched, named_paths(self.spec, tests))
        passed: dict[str, str] = {}
        for name, files in trivial_states(self.spec, lacking, tests).items():
            row = await self._runs.try_out(f"{self.place}-{name}", files, tests)
            for test, cell in zip(tests, row, strict=True):
                if cell.outcome == "pass" and test.expectation.kind == "property" and not test.guard:
                    passed.setdefault(test.id, name)
        for identity, name in passed.items():
            self.reasons[identity] = f"judges nobody: the {name} state passes it"
        return [test.model_copy(update={"discriminates": False}) if test.id in passed else test for test in tests]
