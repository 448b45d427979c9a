"""Makes a task's suite: stated tests, the tester's tests category by category in rounds with reflection, second
readings, the gate. It is made before any candidate exists; whatever it costs is bounded by ``TestgenConfig``."""

from collections import Counter
from collections.abc import Sequence

from hc_ray.config import SolverConfig, TestgenConfig
from hc_ray.events import TestgenProgress
from hc_ray.ports import Events, SandboxPlace
from hc_ray.prompt import Malformed, Prompt
from hc_ray.solve import gate, testgen
from hc_ray.solve.budget import Asking, Purse
from hc_ray.solve.deliverable import Deliverable, read_deliverable
from hc_ray.solve.outcome import Exchange, RoleModel
from hc_ray.solve.requirements import coverage, reflection, requirements, uncertainties
from hc_ray.solve.seeds import seed_of
from hc_ray.solve.stated import examples, generic_tests, stated_tests
from hc_ray.solve.target import Target, targets_of
from hc_ray.solve.templates import prompts_digest
from hc_ray.solve.workbench import Workbench
from hc_ray.suite import CATEGORIES, Category, GateVerdict, SelfTest, Suite
from hc_ray.task import Task
from hc_ray.value import digest_of

STABLE_RUNS = 3
_READINGS_SHARE = 0.3
"""The share of the budget that is kept for second readings."""


class SuiteMaker:
    """One making of one suite. ``place`` tells the first suite from tests that are added later."""

    def __init__(
        self,
        task: Task,
        deliverable: Deliverable,
        config: TestgenConfig,
        *,
        seed: int,
        asking: Asking,
        bench: Workbench,
        events: Events,
        place: str = "suite",
        known: Sequence[SelfTest] = (),
    ) -> None:
        self.task, self.deliverable, self.config = task, deliverable, config
        self._seed, self._asking, self._bench, self._events, self._place = seed, asking, bench, events, place
        self._known = tuple(known)
        self.targets = targets_of(deliverable)
        self.reflections: list[str] = []

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was asked and answered."""
        return tuple(self._asking.exchanges)

    async def make(self, key: str) -> Suite:
        """The whole suite, gated and frozen."""
        instruction = self.task.instruction
        made = [*stated_tests(instruction, self.deliverable)] if not self._known else []
        made += await self._ask_in_rounds(made)
        made += self._filled(made)
        numbered = self._numbered(made)
        gated, confirmed = await self._gate(numbered)
        kept, beyond = self._capped(gated.admitted)
        verdicts = {verdict.id: verdict for verdict in (*gated.verdicts, *beyond)}
        for verdict in confirmed:
            if verdicts[verdict.id].admitted:
                verdicts[verdict.id] = verdict
        self._tell(numbered, kept)
        asked = requirements(instruction)
        kept_ids = {test.id for test in kept}
        purse = self._asking.purse
        return Suite(
            key=key,
            task_digest=self.task.digest,
            tests=kept,
            dropped=(*gated.dropped, *(test for test in gated.admitted if test.id not in kept_ids)),
            gate=tuple(verdicts[test.id] for test in numbered),
            requirements=asked,
            assumptions=self._assumptions(kept),
            uncertainties=uncertainties(instruction, examples=self._examples()),
            matrix=coverage(asked, kept),
            reflections=tuple(self.reflections),
            prompt_tokens=purse.prompt_tokens,
            completion_tokens=purse.completion_tokens,
            engine_seconds=purse.engine_seconds,
        )

    async def _ask_in_rounds(self, stated: Sequence[SelfTest]) -> list[SelfTest]:
        """Ask for tests of every category that applies and is not full, as long as the budget pays."""
        found: list[SelfTest] = []
        reserve = int(self._asking.purse.limit * _READINGS_SHARE) if self.config.second_readings else 0
        for number in range(1, self.config.rounds + 1):
            asked = self._questions(number, [*self._known, *stated, *found])
            asked = asked[: await self._asking.payable([prompt for *_, prompt in asked], reserve=reserve)]
            if not asked:
                break
            answers = await self._asking.all([("testgen", prompt) for *_, prompt in asked])
            for (target, category, prompt), answer in zip(asked, answers, strict=True):
                read = testgen.read(answer, prompt, self.task.instruction, target, category)
                found += () if isinstance(read, Malformed) else read
            told = reflection(
                requirements(self.task.instruction), [*stated, *found], self._short([*stated, *found]), number=number
            )
            self.reflections.append(told)
        return found

    def _questions(self, number: int, have: Sequence[SelfTest]) -> list[tuple[Target, Category, Prompt]]:
        counts = Counter(test.category for test in self._standing(have))
        questions = []
        for category in testgen.ASKED:
            if testgen.applies(category, self.task.instruction, self.targets) is not None:
                continue
            if counts[category] >= self.config.tests_per_category_max:
                continue
            for i, target in enumerate(target for target in self.targets if target.kind != "file"):
                prompt = testgen.ask(
                    self.task.instruction,
                    target,
                    category,
                    profile=self._asking.role.profile,
                    known=[test for test in have if test.subject == target.subject and test.category == category],
                    reflection=self.reflections[-1] if self.reflections else "",
                    count=self.config.tests_per_category_max,
                    seed=seed_of(self.task.digest, self._seed, "tester", self._place, number, category, i),
                    temperature=self.config.temperature,
                )
                questions.append((target, category, prompt))
        return questions

    def _standing(self, tests: Sequence[SelfTest]) -> tuple[SelfTest, ...]:
        """What the gate's first look would leave: a tester that repeats itself fills no category."""
        return gate.screen(self._numbered(tests)).admitted

    def _short(self, tests: Sequence[SelfTest]) -> list[Category]:
        counts = Counter(test.category for test in self._standing(tests))
        return [
            category
            for category in CATEGORIES
            if counts[category] < self.config.tests_per_category_min
            and testgen.applies(category, self.task.instruction, self.targets) is None
        ]

    def _filled(self, tests: Sequence[SelfTest]) -> list[SelfTest]:
        """Generic inputs, up to the minimum of their category and of the whole suite."""
        standing = self._standing(tests)
        have = {gate.input_of(test) for test in (*self._known, *standing) if test.expectation.kind != "property"}
        counts = Counter(test.category for test in standing)
        total = len(standing)
        filled: list[SelfTest] = []
        generic = generic_tests(self.task.instruction, self.deliverable, count=self.config.tests_per_category_max)
        for wanted_of_category in (True, False):
            for test in generic:
                short = counts[test.category] < self.config.tests_per_category_min
                wanted = short if wanted_of_category else total < self.config.total_min
                if wanted and gate.input_of(test) not in have:
                    have.add(gate.input_of(test))
                    counts[test.category] += 1
                    total += 1
                    filled.append(test)
        return filled

    def _numbered(self, tests: Sequence[SelfTest]) -> tuple[SelfTest, ...]:
        counts: Counter[str] = Counter()
        numbered = []
        prefix = "" if self._place == "suite" else f"{self._place}-"
        for test in tests:
            counts[test.category] += 1
            identity = f"{prefix}{test.category}-{counts[test.category]}"
            numbered.append(test.model_copy(update={"id": identity}))
        return tuple(numbered)

    async def _gate(self, tests: Sequence[SelfTest]) -> tuple[gate.Gated, tuple[GateVerdict, ...]]:
        """All of the gate; also what second readings said, for the tests that stayed."""
        screened = gate.screen(tests)
        if self.config.gate == "off":
            return screened, ()
        settled, said = await self._second_readings(screened.admitted)
        screened = gate.joined(screened, gate.screen(settled))
        runs = await self._bench.repeat(f"{self._place}-gate", {}, screened.admitted, repeats=STABLE_RUNS)
        return gate.joined(screened, gate.run_through(screened.admitted, runs)), said

    async def _second_readings(self, tests: Sequence[SelfTest]) -> tuple[tuple[SelfTest, ...], tuple[GateVerdict, ...]]:
        """Ask for every guessed answer again, independently, as long as the budget pays; nearest readings first."""
        by_function: dict[str | None, Target] = {target.function: target for target in self.targets if target.function}
        asked: list[tuple[str, Prompt]] = []
        for turn in range(self.config.second_readings):
            for test in tests:
                target = by_function.get(test.subject.function)
                if target is None or not gate.needs_reading(test):
                    continue
                prompt = testgen.ask_value(
                    self.task.instruction,
                    target,
                    test,
                    profile=self._asking.role.profile,
                    seed=seed_of(self.task.digest, self._seed, "tester", self._place, "reading", turn, test.id),
                    # The first reading is the likeliest answer, the others are independent draws.
                    temperature=0.0 if turn == 0 else self.config.temperature,
                )
                asked.append((test.id, prompt))
        asked = asked[: await self._asking.payable([prompt for _, prompt in asked])]
        answers = await self._asking.all([("testgen", prompt) for _, prompt in asked])
        readings: dict[str, list[str | None]] = {}
        for (identity, _), answer in zip(asked, answers, strict=True):
            readings.setdefault(identity, []).append(testgen.read_value(answer))
        weak = self._asking.role.profile.bias_to_agreement
        return gate.second_reading(tests, readings, self.config, weak=weak)

    def _capped(self, tests: Sequence[SelfTest]) -> tuple[tuple[SelfTest, ...], tuple[GateVerdict, ...]]:
        """At most so many tests a category and in all; stated and judging ones stay first."""
        ranked = sorted(
            range(len(tests)), key=lambda i: (tests[i].expectation.kind == "unknown", -tests[i].confidence, i)
        )
        counts: Counter[str] = Counter()
        kept: set[int] = set()
        beyond = []
        for i in ranked:
            category = tests[i].category
            if counts[category] >= self.config.tests_per_category_max:
                reason = f"beyond {self.config.tests_per_category_max} tests of {category}"
            elif len(kept) >= self.config.total_max:
                reason = f"beyond {self.config.total_max} tests in all"
            else:
                counts[category] += 1
                kept.add(i)
                continue
            beyond.append(GateVerdict(id=tests[i].id, admitted=False, reason=reason))
        return tuple(test for i, test in enumerate(tests) if i in kept), tuple(beyond)

    def _tell(self, generated: Sequence[SelfTest], kept: Sequence[SelfTest]) -> None:
        made, admitted = Counter(test.category for test in generated), Counter(test.category for test in kept)
        for category in CATEGORIES:
            if made[category]:
                event = TestgenProgress(category=category, generated=made[category], admitted=admitted[category])
                self._events.emit(event)

    def _examples(self) -> int:
        functions = [target for target in self.targets if target.function]
        return sum(found.kind != "unknown" for target in functions for found in examples(self.task.instruction, target))

    def _assumptions(self, kept: Sequence[SelfTest]) -> tuple[str, ...]:
        told = []
        if not self.deliverable.stated:
            told.append(f"The instruction names no file; {self.deliverable.main.path} is assumed.")
        for category in CATEGORIES:
            reason = testgen.applies(category, self.task.instruction, self.targets)
            count = sum(test.category == category for test in kept)
            if reason is not None:
                told.append(f"{category} does not apply: {reason}.")
            elif count < self.config.tests_per_category_min:
                told.append(f"{category} has only {count} tests: no more were found that pass the gate.")
        return tuple(told)


def suite_key(task: Task, config: SolverConfig, seed: int, tester: RoleModel) -> str:
    """What a suite depends on: public digest, testgen settings, tester, prompts, seed."""
    return digest_of(
        {
            "task": task.digest,
            "testgen": config.testgen.model_dump(mode="json"),
            "tester": tester.digest,
            "prompts": prompts_digest(),
            "seed": seed,
        }
    )


async def make(
    task: Task, *, config: SolverConfig, seed: int, tester: RoleModel, place: SandboxPlace, events: Events
) -> tuple[Suite, tuple[Exchange, ...]]:
    """A task's suite, and what was asked for it. It has sandboxes of its own and closes them."""
    key = suite_key(task, config, seed, tester)
    bench = Workbench(place, task, key)
    maker = SuiteMaker(
        task,
        read_deliverable(task.instruction, task.environment),
        config.testgen,
        seed=seed,
        asking=Asking(tester, Purse(config.testgen.budget_tokens)),
        bench=bench,
        events=events,
    )
    try:
        return await maker.make(key), maker.exchanges
    finally:
        await bench.close()
