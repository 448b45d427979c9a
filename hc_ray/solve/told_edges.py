"""What an instruction tells of inputs that it does not quote: empty ones, zero, numbers outside of a limit."""

import ast
import re
from collections.abc import Iterator
from typing import Literal

from hc_ray.solve.told_grammar import END, GIVES, LAST, RAISES, START, SUBJECT, VALUE, VERB, Told, free, value_of
from hc_ray.solve.told_spans import MARK, Sentence
from hc_ray.solve.told_words import Speaker

_THINGS = r"(?:items|elements|numbers|values|entries)"
_EMPTY = (
    rf"(?:(?:(?:an?|the|any)\s+)?(?<!non-)empty\s+(?:input\s+(?=\w+\b(?<!is)))?(?P<n>\w+)"
    rf"|(?:(?:the|an?|its|your)\s+)?(?:(?:input|given)\s+)?(?P<n2>\w+|{MARK})\s+(?:is|are)\s+empty\b(?:\s+\w+)??"
    rf"|there\s+(?:are|is)\s+(?:fewer|less)\s+than\s+(?P<few>two|one|three|{MARK})\s+{_THINGS}"
    rf"|there\s+are\s+no\s+(?P<none>{_THINGS}))"
)
_THAN = r"(?:less|smaller|lower|greater|larger|higher|more)"
_NUMBER = (
    rf"(?:(?:the\s+|an?\s+)?(?P<p>\w+|{MARK})\s+(?:is|are)\s+(?P<is>negative or zero|"
    rf"zero or negative|not positive|negative|positive|"
    rf"zero|(?:equal to\s+)?{MARK}|{_THAN}\s+than\s+{MARK}(?:\s+or\s+{_THAN}\s+than\s+{MARK})?|"
    rf"(?:below|above|under)\s+{MARK}(?:\s+or\s+(?:above|over)\s+{MARK})?)"
    rf"|(?:an?\s+|any\s+)?(?P<adj>negative|non-positive|positive)\s+(?P<p2>\w+|{MARK})"
    rf"|(?P<p3>\w+|{MARK})\s*(?P<cmp>(?:(?:below|above|under|less than|greater than|<=?|>=?|==)\s*{MARK})"
    rf"(?:\s+or\s+(?:above|over|greater than|>)\s*{MARK})?)"
    rf"|(?P<zero0>zero))"
)


_WHEN = r"(?:for|if|when|on|whenever|in case(?: of)?|where)\s+(?:given\s+|passed\s+|called with\s+)?"
_IS = r"(?:is|must be|should be)"


_SURE = rf"(?!(?:\s+(?:an?\s+)?(?:{MARK}|\w+Error))?\s+(?:only|if|when|unless|but|except)\b)"
"""What is done under a further condition is not done always."""
_CASE = (
    rf"{MARK}\s+(?:(?:if|when)\s+\w+\s+is\s+(?:positive|negative|zero|{MARK})|"
    rf"for\s+(?:an?\s+)?(?:(?:positive|negative)\s+\w+|zero|{MARK}))"
)
_CASES = re.compile(rf"(?:^|[.;(:]|\b(?:that|which|it|and))\s+returns?\s+{_CASE}(?:,\s*{_CASE})*\s*$", re.IGNORECASE)
"""Before one of several cases that shut each other out: what stands before is no condition of it."""


def edges(sentence: Sentence, speaker: Speaker) -> Iterator[Told]:
    """What is told of empty input, of zero, of negative numbers and of numbers outside a limit."""
    for meant, calls_of in ((_EMPTY, _empties), (_NUMBER, _numbers)):
        for match, outcome in _told_of(sentence.text, meant):
            if not (free(sentence, match.start()) or _is_case(match)):
                continue
            for argument, call in calls_of(match, sentence, speaker):
                expected = value_of(match, sentence, speaker) if outcome == "value" else None
                if outcome == "value" and expected is None:
                    continue
                said = argument if outcome == "same" else expected
                yield Told(call=call, expected=said, sentence=sentence.plain)


Outcome = Literal["value", "same", "raises"]


def _told_of(text: str, meant: str) -> Iterator[tuple[re.Match[str], Outcome]]:
    """Every place where a sentence tells what comes of a meant input, before or after it."""
    lead = (
        rf"(?:\b(?:{_WHEN}|(?:given|with|passing)\s+)|^|"
        r"[,;:.(]\s*|\b(?:and|but|so|while|that)\s+)"
    )
    given = rf"(?:{SUBJECT}\s+(?:\w+\s+)?(?:is\s+given\s+|gets\s+|receives\s+|is\s+)?)?"
    filler = r"(?:\s*,)?\s*(?:(?:has|contains) no \w+\s*[:,;]\s*)?(?:then\s+)?"
    after: tuple[tuple[Outcome, str], ...] = (
        ("value", rf"{lead}{given}{meant}{filler}{SUBJECT}\s+{VERB}\s+{VALUE}{END}"),
        ("value", rf"{lead}{given}{meant}{filler}{GIVES}\s+{VALUE}{END}"),
        ("value", rf"{lead}{meant}\s*(?:->|→|⇒|=>|:)\s*{VALUE}{END}"),
        ("value", rf"^{meant}\s+(?:has|contains)\s+{VALUE}(?:\s+\w+)?{END}"),
        ("value", rf"{lead}{meant}\s+is returned as\s+{VALUE}{END}"),
        ("same", rf"{lead}{meant}\s+(?:stays|remains)\s+(?:empty|unchanged|as it is){END}"),
        ("raises", rf"{lead}{given}{meant}{filler}(?:{SUBJECT}\s+)?(?:(?:must|should|will|shall)\s+)?(?:be\s+)?"
         rf"(?:an?\s+(?:{MARK}|\w+(?:Error|Exception))\s+{_IS}\s+raised\b|{RAISES}\b{_SURE})"),
    )  # fmt: skip
    link = rf"\s*,?\s*(?:{_WHEN}|given\s+)"
    # The last of several answers ("between -1 and 1 for …") is none.
    also = rf"(?<!{MARK})(?<!{MARK} )(?<!{MARK}, )"
    before: tuple[tuple[Outcome, str], ...] = (
        ("value", rf"(?:\b(?:returns?|gives?|is|be|answers?|yields?|{also}(?:or|and))\s+|{also}[,(]\s*)"
         rf"{VALUE}{link}{given}{meant}{LAST}"),
        ("raises", rf"\b(?:raises?|throws?|rejects?|(?:is|be) an? error)\b\s*(?:an?\s+)?"
         rf"(?:{MARK}|\w*(?:Error|Exception))?(?:\s*\({MARK}\))?(?:\s*\(\w+\))?(?:\s+exception)?"
         rf"{link}(?:either\s+)?{meant}{LAST}"),
        ("value", rf"{START}{VALUE}\s+{_IS}\s+returned{link}{given}{meant}{LAST}"),
        ("value", rf"{lead}{given}{meant}\s*,?\s+{VALUE}\s+{_IS}\s+returned{END}"),
        ("raises", rf"(?:{MARK}|\b\w+(?:Error|Exception))\s+(?:is|must be|should be|will be)\s+raised"
         rf"{link}{meant}{LAST}"),
    )  # fmt: skip
    for outcome, pattern in (*after, *before):
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield match, outcome


def _is_case(match: re.Match[str]) -> bool:
    """Whether a match is one of several cases of one thing's sign or value that are told in a row."""
    before = _CASES.search(match.string[: match.start()])
    of = set(re.findall(r"\b(?:if|when)\s+(\w+)\s+is\b", before[0] + match[0])) if before else set()
    return before is not None and len(of) <= 1


def _empties(match: re.Match[str], sentence: Sentence, speaker: Speaker) -> Iterator[tuple[str, str]]:
    """``(argument, call)`` for empty input."""
    if match["few"] or match["none"]:
        argument, named = speaker.few(), ""
    else:
        said = match["n"] or match["n2"]
        named = _named(said, sentence)
        argument = speaker.empty_input(named.lower() if named not in speaker.names else named) or ""
    if argument and (call := speaker.call_at(argument, named)):
        yield argument, call


def _numbers(match: re.Match[str], sentence: Sentence, speaker: Speaker) -> Iterator[tuple[str, str]]:
    """``(argument, call)`` for the numbers that a condition means."""
    said = match["p"] or match["p2"] or match["p3"] or ""
    named = _named(said, sentence)
    phrase = (match["is"] or match["adj"] or match["cmp"] or "zero").lower()
    meant: list[int] = []
    if phrase == "positive":
        meant.append(1)
    elif "negative" in phrase or "positive" in phrase:
        meant.append(-1)
    if re.search(r"\b(?:zero|0)\b|\b(?:not |non-)positive", phrase):
        meant.append(0)
    exact = re.fullmatch(rf"(?:equal to\s+)?({MARK})", phrase)
    if exact and (wanted := _limit(sentence, exact[1])) is not None:
        meant.append(wanted)
    for words, mark in re.findall(rf"(less than|smaller than|lower than|below|under|<=?|greater than|larger than|"
                                  rf"higher than|more than|above|over|>=?|==)\s*({MARK})", phrase):  # fmt: skip
        limit = _limit(sentence, mark)
        if limit is None:
            return
        step = 0 if "=" in words else 1
        meant.append(limit - step if re.match(r"less|smaller|lower|below|under|<", words) else limit + step)
    if named.lower() == "it" and not (match["is"] or "").startswith(("neg", "zero", "not")):
        # "It" is the argument where the condition is of a sign; where it is compared, it may be anything.
        return
    for number in meant:
        argument = repr(number)
        if speaker.takes_number(named) and (call := speaker.call_at(argument, named)):
            yield argument, call


def _named(said: str, sentence: Sentence) -> str:
    """The word that a sentence uses, or what its mark stands for."""
    return sentence.span(said).source if re.fullmatch(MARK, said) else said


def _limit(sentence: Sentence, mark: str) -> int | None:
    try:
        value = ast.literal_eval(sentence.span(mark).source)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**6 else None
