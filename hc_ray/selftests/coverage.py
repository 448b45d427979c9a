"""Which sentences of an instruction a suite's tests cover."""

import re
from collections import Counter
from collections.abc import Sequence

from hc_ray.domain.suite import SelfTest
from hc_ray.spec.spec import Spec


def least_tested(spec: Spec, tests: Sequence[SelfTest]) -> tuple[str, ...]:
    """The sentences, sorted by how few tests with a known answer encode them."""
    known = Counter(test.sentence for test in tests if test.expectation.kind in ("value", "rejected"))
    return tuple(sorted(dict.fromkeys(spec.sentences), key=lambda sentence: known[sentence]))


def sentence_of(quote: str, spec: Spec) -> str:
    """The task's sentence that contains or starts a quotation; empty if the task has none."""
    if not quoted_in(quote, spec.instruction):
        return ""
    wanted = _plain(quote)
    plain = {sentence: _plain(sentence) for sentence in spec.sentences}
    whole = (sentence for sentence, text in plain.items() if wanted in text)
    return next(whole, next((sentence for sentence, text in plain.items() if len(text) >= 8 and text in wanted), quote))


def quoted_in(quote: str, instruction: str) -> bool:
    """Whether a quotation occurs in the instruction, ignoring white space, escaped or not, and punctuation marks."""
    wanted = _plain(quote)
    return len(wanted) >= 8 and wanted in _plain(instruction)


def _plain(text: str) -> str:
    text = re.sub(r"\\[nrt]", " ", re.sub(r"[`*_\"'\u2018\u2019\u201c\u201d]", "", text))
    return " ".join(text.lower().split()).rstrip(". …")
