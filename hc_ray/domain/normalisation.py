"""Normalises command output by replacing what differs between equal runs (addresses, temporary paths, times,
durations), so that equal behaviour compares equal. Never used on text shown to a model, which is left as it is."""

import functools
import re

from hc_ray.domain.value import unstyled

_SHORT = 400
"""Results for texts up to this many characters are cached: most outputs are short and recur."""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "0x?"),
    # Results of Python's id(): addresses of heap and mapped memory, as placed by PIE within 47 bits.
    (re.compile(r"\b(?:9[3-9]\d{12}|1[34]\d{13})\b"), "<address>"),
    (re.compile(r"(?:/var)?/tmp/hc/[\w.-]+(?:/t\w{8})?(?:/(?:\d+|base)\b)?(?:/tmp\w{8}\b)?"), "/tmp/?"),
    (re.compile(r"(/tmp/(?:tmp|pytest-|t))[\w.-]{6,}"), r"/tmp/?"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w* (?:\d+ )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*"
                r" +\d+ \d\d:\d\d:\d\d(?: \w+)?(?: \d{4})?"), "<time>"),
    # Fractional seconds since the epoch, for the years 2020 to 2033.
    (re.compile(r"\b(?:1[6-9]\d{8})\.\d{3,}\b"), "<time>"),
    (re.compile(r"\bin \d+(?:\.\d+)? ?(?:s|ms|seconds?)\b"), "in <duration>"),
    (re.compile(r"\b\d+m\d+\.\d+s\b"), "<duration>"),
    (re.compile(r"\bpid[ =:]+\d+", re.IGNORECASE), "pid ?"),
)  # fmt: skip


def normal(text: str) -> str:
    """``text`` without details of when and where it was produced."""
    return _ruled(text) if len(text) <= _SHORT else _ruled.__wrapped__(text)


@functools.lru_cache(4096)
def _ruled(text: str) -> str:
    text = unstyled(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
