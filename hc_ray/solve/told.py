"""What an instruction tells of a function in words: "for `x` it is `y`", "an empty list gives 0", "`x` is not
balanced", "raises ValueError if n is negative". No model. In doubt nothing is read: a wrong stated answer ruins a task,
a missed one costs little. Arbitrary text never raises."""

import re
from collections.abc import Iterator, Sequence

from hc_ray.solve.scan import Found
from hc_ray.solve.told_blocks import blocks
from hc_ray.solve.told_edges import edges
from hc_ray.solve.told_grammar import (
    CONDITION,
    DOUBTFUL,
    END,
    LAST,
    MANY,
    MAPS,
    START,
    SUBJECT,
    VALUE,
    VERB,
    Told,
    free,
    value_of,
)  # fmt: skip
from hc_ray.solve.told_spans import MARK, Sentence, prose
from hc_ray.solve.told_words import Speaker


def told(
    instruction: str,
    function: str,
    parameters: Sequence[str],
    found: Sequence[Found],
    returns: str = "",
    *,
    several: bool = False,
) -> tuple[Told, ...]:
    """What is told beyond ``found`` (the calls that the text shows), each call once; calls of which two different
    things are told are left out. ``several``: other functions are asked for too, so only whole calls are sure."""
    if len(instruction) > 40_000 or not function.isidentifier():
        return ()
    speaker = Speaker.of(instruction, function, parameters, found, returns)
    kept: dict[str, Told] = {}
    doubted = set()
    read = [
        Told(call=call, expected=expected, sentence=line, shown=True, literal=True)
        for call, expected, line in blocks(instruction, speaker)
        if not several
    ]
    for sentence in prose(instruction, function):
        if DOUBTFUL.search(sentence.text):
            continue
        if several:
            called = {span.source for span in sentence.spans if span.kind == "call"}
            read += [one for one in _items(sentence, speaker) if one.call in called]
        else:
            read += [*_items(sentence, speaker), *_claims(sentence, speaker), *edges(sentence, speaker)]
    for one in read:
        held = kept.get(one.call)
        if held is not None and held.expected != one.expected:
            doubted.add(one.call)
        if held is None or (one.literal and not held.literal):
            kept[one.call] = one
    known = {one.call for one in found if one.kind != "unknown"}
    return tuple(
        one for call, one in kept.items()
        if call not in doubted and call not in known and (one.expected is None or speaker.fits(one.expected))
    )  # fmt: skip


def _items(sentence: Sentence, speaker: Speaker) -> Iterator[Told]:
    """What is told of quoted inputs and of shown calls."""
    text = sentence.text
    name = "|".join(map(re.escape, (*speaker.names, *speaker.words))) or "input"
    what = (
        rf"(?:(?:an?|the)\s+)?(?:(?:{name}|input|argument|value|number|integer|string|text|word|list)\s+)?(?:of|=|is)?"
    )
    patterns = (
        rf"(?:\b(?:for|given)|{START}(?:with|from|on|passing|input))\s+{what}\s*(?P<m>{MARK})(?:\s+as\s+(?:the\s+)?\w+)?,?\s+"
        rf"(?:{SUBJECT}\s+(?:{name})?\s*)?(?:{speaker.called}\s+)?{VERB}\s+{VALUE}{END}",
        rf"\b(?:returns?|gives?|answers?)\s+{VALUE}\s+(?:for|given|on)\s+{what}\s*(?P<m>{MARK}){LAST}",
        rf"{START}(?P<m>{MARK})\s*{MAPS}\s*{VALUE}{END}",
        rf"{START}(?P<m>{MARK})\s+(?:has|contains|holds)\s+{VALUE}\s+(?:{name})\w*{END}",
        rf"\bthe\s+(?:result|answer|output|value|{name})\s+(?:for|of)\s+{what}\s*(?P<m>{MARK})\s+"
        rf"(?:is|must be|should be)\s+{VALUE}{END}",
        rf"\b(?:an?|the)\s+(?:{name})\s+of\s+(?P<m>{MARK})\s+(?:is|gives|returns|means)\s+{VALUE}{END}",
        rf"(?P<m>{MANY})\s+(?:should\s+|must\s+)?(?:both\s+|all\s+|each\s+|also\s+)?(?:are|be|is|returns?|gives?|yields?|"
        rf"results? in|->|→|⇒|=>|==)\s*{VALUE}{END}",
        rf"(?P<m>{MARK})\s+(?:does|must|should) not (?:return|give) {MARK},? but {VALUE}{END}",
    )
    also = re.compile(rf",?\s*(?:and\s+)?{VALUE}\s+for\s+(?P<m>{MARK}){LAST}", re.IGNORECASE)
    for i, pattern in enumerate(patterns):
        for match in _with_more(re.finditer(pattern, text, re.IGNORECASE), also if i == 1 else None):
            if not free(sentence, match.start("m")):
                continue
            for mark in re.findall(MARK, match["m"]):
                span = sentence.span(mark)
                if i >= 6 and span.kind != "call":
                    continue
                call = speaker.call_with(span)
                if (
                    i == 2
                    and span.kind in ("text", "raw")
                    and len(span.source) < 3
                    and not span.source.strip("-").isalnum()
                ):
                    # "`_` becomes `-`" is a rule about characters.
                    continue
                expected = value_of(match, sentence, speaker, loose=span.kind == "raw")
                if call is not None and expected is not None:
                    yield Told(
                        call=call, expected=expected, sentence=sentence.plain, shown=True, literal=bool(match["v"])
                    )
    plural = (
        rf"(?P<m>{MANY})\s+(?:must\s+|should\s+)?(?:both\s+|all\s+|each\s+)?(?:raises?|throws?|(?:is|are) rejected)\b"
    )
    for match in re.finditer(plural, text):
        for span in map(sentence.span, re.findall(MARK, match["m"])):
            if span.kind == "call" and free(sentence, match.start()):
                yield Told(call=span.source, sentence=sentence.plain, shown=True, literal=True)
    refused = (
        rf"\b(?:raises?|throws?|rejects?)\s+(?:an?\s+)?(?:{MARK}|\w*(?:Error|Exception))\s+(?:for|on|given)\s+(?P<m>.*)"
    )
    for match in re.finditer(refused, text):
        listed = re.match(rf"{MANY}(?:,?\s+(?:and|or)\s+for\s+{MARK})?(?=\s*(?:[.;:)!]|$))", match["m"])
        for mark in re.findall(MARK, listed[0]) if listed and free(sentence, match.start()) else ():
            if (call := speaker.call_with(sentence.span(mark))) is not None:
                yield Told(call=call, sentence=sentence.plain, shown=True, literal=True)


def _with_more(found: Iterator[re.Match[str]], also: re.Pattern[str] | None) -> Iterator[re.Match[str]]:
    """Matches with those of a list that goes on right behind each ("returns `a` for 1, `b` for 2 and `c` for 3")."""
    for match in found:
        yield match
        more = also.match(match.string, match.end()) if also else None
        while more and also:
            yield more
            more = also.match(match.string, more.end())


def _claims(sentence: Sentence, speaker: Speaker) -> Iterator[Told]:
    """``x`` is (not) what the function asks, where it answers True or False."""
    if not speaker.boolean or CONDITION.search(sentence.text):
        return
    subject = (
        rf"(?P<m>{MANY})|(?:an?|the)\s+empty\s+(?P<n>\w+)|(?P<two>two empty (?:strings|texts|lists|words))|"
        rf"(?P<neg>negative (?:numbers|integers|values))|"
        rf"an?\s+\w+\s+with\s+(?:fewer|less) than (?P<few>two|three|{MARK}) \w+"
    )
    claim = (
        rf"{START}(?:{subject})\s+(?:is|are|counts? as|has|have|(?P<nt>isn't|aren't))\s+"
        rf"(?P<not>(?:not|no|never|also)\b\s*)?(?:considered\s+)?(?P<what>(?:[\w-]+\s*){{0,4}}){END}"
    )
    claimed = False
    for match in re.finditer(claim, sentence.text, re.IGNORECASE):
        if match["m"] and not free(sentence, match.start("m")):
            continue
        words = match["what"].lower().split()
        denied = (match["not"] or "").strip().lower() in ("not", "no", "never") or match["nt"] is not None
        if not words and not (denied and claimed):
            continue
        said = speaker.claims(words) if words else True
        if said is None:
            continue
        claimed = True
        for call, shown in _subjects(match, sentence, speaker):
            yield Told(call=call, expected=str(said != denied), sentence=sentence.plain, shown=shown, literal=False)


def _subjects(match: re.Match[str], sentence: Sentence, speaker: Speaker) -> Iterator[tuple[str, bool]]:
    if match["m"]:
        calls = [speaker.call_with(sentence.span(mark)) for mark in re.findall(MARK, match["m"])]
        yield from ((call, True) for call in calls if call is not None)
    elif match["two"]:
        empty = "[]" if "list" in match["two"] else "''"
        if len(speaker.needed) == 2:
            yield f"{speaker.function}({empty}, {empty})", False
    else:
        meant = "-1" if match["neg"] else speaker.few() if match["few"] else speaker.empty_input(match["n"].lower())
        if call := speaker.call_at(meant, ""):
            yield call, False
