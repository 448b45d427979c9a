"""Writes a suite: shown examples, tests that the tester's model writes in rounds, generic inputs for categories with
too few tests, then the gate. It is frozen before any candidate exists."""

from collections import Counter
from collections.abc import Sequence
from itertools import product

from hc_ray.agent import environment_probe
from hc_ray.agent.budget import Asking, Purse, answers, payable
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.prompt_templates import prompts_digest
from hc_ray.agent.role import Exchange, RoleModel
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.ports import Events, MakesSandboxes
from hc_ray.domain.prompt import Malformed, Prompt
from hc_ray.domain.suite import CATEGORIES, Category, SelfTest, Suite
from hc_ray.domain.task import Task
from hc_ray.domain.trial import seed_of
from hc_ray.domain.value import digest_of
from hc_ray.selftests import gate, tester
from hc_ray.selftests.file_suite import FileSuiteWriter
from hc_ray.selftests.shown_examples import Target, generic_inputs, shown_tests, targets_of
from hc_ray.selftests.writer import OWNER, Writer
from hc_ray.spec.reading import read_spec

Question = tuple[Asking, Target, Category, Prompt]
"""(tester, target, category, parameters) of one prompt."""


class SuiteWriter(Writer):
    """Writes single tests by category."""

    async def _made(self) -> list[SelfTest]:
        self.deliverable = deliverable_of(self.spec)
        self.targets = targets_of(self.deliverable)
        self.applying = [one for one in tester.ASKED if tester.applies(one, self.spec, self.targets) is None]
        made = [] if self.known else [*shown_tests(self.spec, self.deliverable)]
        made += await self._ask_in_rounds(made)
        return made + self._filled(made)

    def _assumptions(self, kept: Sequence[SelfTest]) -> tuple[str, ...]:
        """Which categories have too few tests and why, as sentences for display."""
        told = []
        if self.deliverable.path is None:
            told.append("The instruction does not name exactly one missing file: the answer names its files.")
        for category in CATEGORIES:
            reason = tester.applies(category, self.spec, self.targets)
            count = sum(test.category == category for test in kept)
            if reason is not None and not count:
                told.append(f"No model was asked for {category} tests: {reason}.")
            elif reason is None and count < self.config.tests_per_category_min:
                told.append(f"{category} has only {count} tests: no more were found that pass the gate.")
        return tuple(told)

    async def _ask_in_rounds(self, stated: Sequence[SelfTest]) -> list[SelfTest]:
        """Ask every tester for tests of every applicable category that is not full, while the budget lasts and some
        category is short."""
        found: list[SelfTest] = []
        for number in range(1, self.config.rounds + 1):
            questions = self._questions(number, [*self.known, *stated, *found])
            asked = [(asking, prompt) for asking, *_, prompt in questions]
            asked = asked[: await payable(asked)]
            if not asked:
                break
            told = await answers([(asking, OWNER, prompt) for asking, prompt in asked])
            for (asking, target, category, prompt), answer in zip(questions, told, strict=False):
                read = tester.read(answer, prompt, self.spec, target, category)
                if not isinstance(read, Malformed):
                    found += [test.model_copy(update={"tester": asking.role.label}) for test in read]
            so_far = [*stated, *found]
            short = self._short(self._standing(so_far), self.applying)
            self._reflect(so_far, short, number)
            if not short:
                break
        return found

    def _questions(self, number: int, have: Sequence[SelfTest]) -> list[Question]:
        """The prompts of all testers, interleaved, so that a small budget limits them equally."""
        counts, most = Counter(test.category for test in self._standing(have)), self.config.tests_per_category_max
        lacking = [category for category in self.applying if counts[category] < most]
        targets = [target for target in self.targets if target.kind != "file"]
        questions: list[Question] = []
        for turn, (category, (i, target)) in enumerate(product(lacking, enumerate(targets))):
            for who, asking in enumerate(self.askings):
                place = (number, category, i) if who == 0 else (number, category, i, who)
                prompt = tester.ask(
                    self.spec,
                    target,
                    category,
                    profile=asking.role.profile,
                    known=[test for test in have if test.subject == target.subject and test.category == category],
                    reflection=self.reflected,
                    count=most,
                    seed=seed_of(self.task.digest, self.seed, "tester", self.place, *place),
                    temperature=tester.temperature(self.config.temperature, turn),
                    workspace=environment_probe.shown(self.spec.snapshot, self.deliverable.inputs),
                )
                questions.append((asking, target, category, prompt))
        return questions

    def _standing(self, tests: Sequence[SelfTest]) -> tuple[SelfTest, ...]:
        """The tests that pass the gate's static step, so that repeated tests do not fill a category."""
        return gate.screen(self._numbered(tests))[0]

    def _filled(self, tests: Sequence[SelfTest]) -> list[SelfTest]:
        """Generic inputs, up to the minimum per category and in total."""
        standing = self._standing(tests)
        have = {gate.input_of(test) for test in (*self.known, *standing) if test.expectation.kind != "property"}
        counts = Counter(test.category for test in standing)
        total = len(standing)
        filled: list[SelfTest] = []
        generic = generic_inputs(self.spec, self.deliverable, count=self.config.tests_per_category_max)
        for step in ("category", "suite"):
            for test in generic:
                short = counts[test.category] < self.config.tests_per_category_min and total < self.config.total_max
                wanted = short if step == "category" else total < self.config.total_min
                if wanted and gate.input_of(test) not in have:
                    have.add(gate.input_of(test))
                    counts[test.category] += 1
                    total += 1
                    filled.append(test)
        return filled


def suite_key(task: Task, config: SolverConfig, seed: int, tester: RoleModel) -> str:
    """Digest of everything that a suite depends on: public digest, testgen settings, tester and its prompts, seed; but
    not the solver, so that configs that differ only in it share suites."""
    return digest_of(
        {
            "task": task.digest,
            "testgen": config.testgen.model_dump(mode="json"),
            "tester": [tester.digest, *(one.digest for one in tester.others)] if tester.others else tester.digest,
            "prompts": prompts_digest("tester"),
            "seed": seed,
        }
    )


async def write_suite(
    task: Task,
    *,
    config: SolverConfig,
    seed: int,
    tester: RoleModel,
    place: MakesSandboxes,
    looks: environment_probe.Looks,
    events: Events,
    purse: Purse | None = None,
) -> tuple[Suite, tuple[Exchange, ...]]:
    """Write a task's suite; returns it with the exchanges. Uses its own sandboxes and closes them. ``purse``: the
    budget to charge, for a caller that may be cancelled before the end."""
    key = suite_key(task, config, seed, tester)
    forks = SandboxForks(place, task, key)
    try:
        spec = await looks.around(read_spec(task.instruction, task.environment), task)
        kind = FileSuiteWriter if config.testgen.style == "files" else SuiteWriter
        writer = kind(task, spec, config.testgen, seed=seed, forks=forks, events=events,
                      asking=Asking(tester, purse or Purse(config.testgen.budget_tokens)))  # fmt: skip
        return await writer.write(key), writer.exchanges
    finally:
        await forks.close()
