"""Which sentences of an instruction a suite's tests encode."""

import re
from collections import Counter
from collections.abc import Sequence

from hc_ray.domain.suite import Category, SelfTest
from hc_ray.spec.spec import Spec

_LISTED, _IN_A_LINE = 25, 3
"""Sentences without a test that are told in a list, and in a line."""


def reflection(
    spec: Spec, tests: Sequence[SelfTest], short: Sequence[Category], *, least: int, number: int, listed: bool
) -> str:
    """What a round left uncovered, in words that the next round's prompts repeat. ``short``: categories of fewer than
    ``least`` tests; ``listed``: there is room for a list."""
    covered = {test.sentence for test in tests}
    missing = [sentence for sentence in dict.fromkeys(spec.sentences) if sentence not in covered]
    parts = [f"Round {number}: {len(tests)} tests."]
    if short:
        parts.append(f"Fewer than {least} tests of: " + ", ".join(short) + ".")
    if missing:
        told = "".join(f"\n- {one}" for one in missing[:_LISTED]) if listed else " " + " ".join(missing[:_IN_A_LINE])
        parts.append(f"Sentences that no test covers yet, where they ask for anything:{told}")
    return " ".join(parts)


def least_tested(spec: Spec, tests: Sequence[SelfTest]) -> tuple[str, ...]:
    """The sentences, those that fewest tests with a known answer encode first."""
    known = Counter(test.sentence for test in tests if test.expectation.kind in ("value", "rejected"))
    return tuple(sorted(dict.fromkeys(spec.sentences), key=lambda sentence: known[sentence]))


def sentence_of(quote: str, spec: Spec) -> str:
    """The task's sentence that a quotation lies in or begins with; empty where the task says no such thing."""
    if not quoted_in(quote, spec.instruction):
        return ""
    wanted = _plain(quote)
    plain = {sentence: _plain(sentence) for sentence in spec.sentences}
    whole = (sentence for sentence, text in plain.items() if wanted in text)
    return next(whole, next((sentence for sentence, text in plain.items() if len(text) >= 8 and text in wanted), quote))


def quoted_in(quote: str, instruction: str) -> bool:
    """Whether a quotation stands in the instruction; white space, spelled out or not, and marks aside."""
    wanted = _plain(quote)
    return len(wanted) >= 8 and wanted in _plain(instruction)


def _plain(text: str) -> str:
    text = re.sub(r"\\[nrt]", " ", re.sub(r"[`*_\"'\u2018\u2019\u201c\u201d]", "", text))
    return " ".join(text.lower().split()).rstrip(". …")
