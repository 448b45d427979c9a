"""Which sentences of an instruction a suite's tests encode."""

from collections import Counter
from collections.abc import Sequence

from hc_ray.domain.suite import Category, Requirement, SelfTest
from hc_ray.spec.spec import Spec


def requirements(spec: Spec) -> tuple[Requirement, ...]:
    """Every sentence, numbered: which of them ask for something is for the model to say."""
    sentences = dict.fromkeys(spec.sentences)
    return tuple(Requirement(id=f"r{i}", sentence=sentence) for i, sentence in enumerate(sentences, start=1))


def coverage(asked: Sequence[Requirement], tests: Sequence[SelfTest]) -> dict[str, tuple[str, ...]]:
    """Requirement id → ids of the tests that encode its sentence."""
    return {one.id: tuple(test.id for test in tests if test.sentence == one.sentence) for one in asked}


def reflection(spec: Spec, tests: Sequence[SelfTest], short: Sequence[Category], *, least: int, number: int) -> str:
    """What a round left uncovered, in words that the next round's prompts repeat. ``short``: categories of fewer than
    ``least`` tests."""
    covered = {test.sentence for test in tests}
    missing = [sentence for sentence in dict.fromkeys(spec.sentences) if sentence not in covered]
    parts = [f"Round {number}: {len(tests)} tests."]
    if short:
        parts.append(f"Fewer than {least} tests of: " + ", ".join(short) + ".")
    if missing:
        parts.append("Sentences that no test covers yet, where they ask for anything: " + " ".join(missing[:3]))
    return " ".join(parts)


def least_tested(spec: Spec, tests: Sequence[SelfTest]) -> tuple[str, ...]:
    """The sentences, those that fewest tests with a known answer encode first."""
    known = Counter(test.sentence for test in tests if test.expectation.kind in ("value", "rejected"))
    return tuple(sorted(dict.fromkeys(spec.sentences), key=lambda sentence: known[sentence]))
