"""Outputs that an instruction gives as a text with slots ("prints `Dear NAME,`, where NAME is the first argument"):
what comes out for any other input is then known. Purely textual: arbitrary text never raises; where anything else may
bear on the output, or a slot is not told for sure, there is no form."""

import re
from collections.abc import Mapping, Sequence

from hc_ray.solve.passages import LINE_END, QUOTED, prose, unquoted
from hc_ray.solve.requirements import sentences
from hc_ray.value import Value

SLOT = re.compile(r"<[^<>\s]+>|\{\w+\}|(?<![a-z0-9])[A-Z][A-Z0-9_]*(?![a-z])")
"""What stands for something else in a quoted form: a word in brackets or in capitals."""


class Form(Value):
    """An output with slots."""

    parts: tuple[str | int, ...]
    """Fixed text, and which of the inputs stands there."""
    sentence: str

    def filled(self, given: Sequence[str]) -> str:
        """The output for these inputs. Raises ``IndexError`` where there are too few of them."""
        return "".join(given[part] if isinstance(part, int) else part for part in self.parts)


_GIVES = re.compile(
    r"\b(?:prints?|outputs?|displays?|returns?|printing|returning)\s+"
    r"(?:(?:just|only|exactly)\s+)?(?:the (?:single )?(?:text|string|line|message|sentence|greeting)\s+)?"
    rf"(?P<form>{QUOTED})"
)
_NTH = {"first": 0, "second": 1, "third": 2, "fourth": 3}
_WHERE = re.compile(
    rf"(?:\s*,?\s*\(?where |,? and |, )(?P<slot>{QUOTED}|[A-Z][A-Z0-9_]*)(?: (?:is|stands for|means))? "
    rf"(?:(?:its|the) (?P<nth>first |second |third |fourth |only |single |given )?(?:command[- ]line )?"
    rf"(?P<what>argument|parameter|word|line|name|text|input)"
    rf"(?: (?:read|given|taken|passed|that is (?:read|given|passed)))?(?: (?:from|on) (?:standard input|stdin))?|"
    rf"(?:the (?:argument|parameter|value of) )?(?P<parameter>{QUOTED}))(?=\)?\s*(?:[.;,]|$|and\b))"
)
_ENDED = re.compile(r"\)?\s*(?:(?:to|on) (?:its |the )?(?:standard output|stdout))?\s*(?:[.;]|$)")
_BEARS_ON_IT = re.compile(
    r"\b(?:if|when|whenever|unless|except|otherwise|else|instead|each|every|all|trim\w*|strip\w*|capital\w*|"
    r"(?:upper|lower|title)[- ]?case\w*|round\w*|decimals?|padd?\w*|first letter|without|replac\w*|default\w*)\b",
    re.IGNORECASE,
)
_OF_NOTHING = re.compile(
    r"\b(?:(?:no|missing|without (?:an?|any)) (?:\w+ )?(?:arguments?|input|name)|empty|"
    r"(?:argument|input|name) is missing)\b",
    re.IGNORECASE,
)
_SHOWN = re.compile(r"\b(?:for example|for instance|e\.g\.|examples?:|so )", re.IGNORECASE)


def form(instruction: str, names: Sequence[str]) -> Form | None:
    """The one form of every ordinary output. ``names``: of the inputs, in order: a slot of such a name needs no
    explanation. Inputs that are empty or missing may be another matter."""
    said = [one for one in sentences(LINE_END.sub("", prose(instruction))) if not _SHOWN.match(one)]
    asked = [one for one in said if not _OF_NOTHING.search(one)]
    if any(_BEARS_ON_IT.search(_unmarked(one)) for one in asked):
        return None
    told = [(one, match) for one in asked for match in _GIVES.finditer(one)]
    if len(told) != 1:
        return None
    sentence, match = told[0]
    places = {name.upper(): place for place, name in enumerate(names)}
    end = match.end()
    while where := _WHERE.match(sentence, end):
        place = _place(where, names)
        if place is None:
            return None
        places[_name(unquoted(where["slot"]))] = place
        end = where.end()
    if not _ENDED.match(sentence, end):
        return None
    return _cut(unquoted(match["form"]), places, instruction.replace(match["form"], "", 1), sentence)


def _unmarked(sentence: str) -> str:
    """Without what is quoted: a text that is printed says nothing of how."""
    return re.sub(QUOTED, "", sentence)


def _name(slot: str) -> str:
    return slot.strip("<>{}").upper()


def _place(where: re.Match[str], names: Sequence[str]) -> int | None:
    """Which of the inputs a slot is said to be."""
    if where["parameter"]:
        name = unquoted(where["parameter"])
        return names.index(name) if name in names else None
    nth = (where["nth"] or "").strip()
    if nth in _NTH:
        return _NTH[nth] if where["what"] in ("argument", "parameter", "word", "line") else None
    return 0 if len(names) <= 1 else None


def _cut(text: str, places: Mapping[str, int], elsewhere: str, sentence: str) -> Form | None:
    """A form in parts; None where a slot is not told, or none is there. A word in capitals of which nothing is said
    anywhere is fixed text."""
    parts: list[str | int] = []
    end = 0
    for slot in SLOT.finditer(text):
        place = places.get(_name(slot[0]))
        if place is None:
            if slot[0][0] in "<{" or re.search(rf"\b{re.escape(slot[0])}\b", elsewhere):
                return None
            continue
        parts += [text[end : slot.start()], place]
        end = slot.end()
    parts.append(text[end:])
    fixed = "".join(part for part in parts if isinstance(part, str))
    return Form(parts=tuple(parts), sentence=sentence) if len(parts) > 1 and fixed.strip() else None
