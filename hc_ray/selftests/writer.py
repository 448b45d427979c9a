"""What both ways of writing a suite share: what a writer is given, numbering, and the frozen suite with its costs."""

from collections import Counter
from collections.abc import Sequence

from hc_ray.agent.budget import Asking
from hc_ray.agent.role import Exchange
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.events import TestgenProgress
from hc_ray.domain.ports import Events
from hc_ray.domain.suite import CATEGORIES, GateVerdict, SelfTest, Suite
from hc_ray.domain.task import Task
from hc_ray.selftests import askings
from hc_ray.selftests.coverage import coverage, requirements
from hc_ray.selftests.suite_runs import SuiteRuns
from hc_ray.spec.spec import Spec


class Writer:
    """One writing of one suite. ``place`` tells the first suite from tests that are added later."""

    def __init__(
        self,
        task: Task,
        spec: Spec,
        config: TestgenConfig,
        *,
        seed: int,
        asking: Asking,
        forks: SandboxForks,
        events: Events,
        place: str = "suite",
        known: Sequence[SelfTest] = (),
    ) -> None:
        self.task, self.spec, self.config = task, spec, config
        self._seed, self._purse, self._forks, self._events, self._place = seed, asking.purse, forks, events, place
        self._askings, self._known = askings.all_of(asking), tuple(known)
        self._runs = SuiteRuns(forks)
        self.notes: list[str] = []
        self.reflections: list[str] = []
        self.questions = self.malformed = 0

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was asked and answered."""
        return tuple(one for asking in self._askings for one in asking.exchanges)

    def _numbered(self, tests: Sequence[SelfTest]) -> tuple[SelfTest, ...]:
        counts: Counter[str] = Counter()
        prefix = "" if self._place == "suite" else f"{self._place}-"
        numbered = []
        for test in tests:
            counts[test.category] += 1
            numbered.append(test.model_copy(update={"id": f"{prefix}{test.category}-{counts[test.category]}"}))
        return tuple(numbered)

    def _frozen(
        self,
        key: str,
        made: Sequence[SelfTest],
        *,
        kept: tuple[SelfTest, ...],
        dropped: tuple[SelfTest, ...],
        gate: tuple[GateVerdict, ...],
        assumptions: tuple[str, ...],
        uncertainties: tuple[str, ...] = (),
    ) -> Suite:
        """The suite, told of by category."""
        generated, admitted = Counter(test.category for test in made), Counter(test.category for test in kept)
        for category in CATEGORIES:
            if generated[category]:
                event = TestgenProgress(category=category, generated=generated[category], admitted=admitted[category])
                self._events.emit(event)
        asked = requirements(self.spec)
        return Suite(
            key=key,
            task_digest=self.task.digest,
            tests=kept,
            dropped=dropped,
            gate=gate,
            requirements=asked,
            assumptions=assumptions,
            uncertainties=uncertainties,
            matrix=coverage(asked, kept),
            environment=self.spec.snapshot,
            notes=tuple(self.notes),
            reflections=tuple(self.reflections),
            questions=self.questions,
            malformed=self.malformed,
            prompt_tokens=self._purse.prompt_tokens,
            completion_tokens=self._purse.completion_tokens,
            engine_seconds=self._purse.engine_seconds,
        )
