"""Examples that stand in blocks: "Input: … Output: …", and tables of parameters and answers. No model."""

import re
from collections.abc import Iterator

from hc_ray.solve.scan import arguments, call_in_normal_form, literal_at, parsed
from hc_ray.solve.told_words import Speaker

_PAIR = re.compile(
    r"^[^\w\n`'\"]*(?:(?:sample|example)\s+)?inputs?\W{0,4}?[:=][*_]*\s*(?P<given>\S[^\n]*?)\s*"
    r"(?:\n\s*|[,;|]\s*|\s(?:->|→|=>)\s*|\s)[^\w\n`'\"]*(?:(?:sample|expected|example)\s+)?outputs?\W{0,4}?[:=][*_]*\s*"
    r"(?P<said>\S[^\n]*?)\s*$", re.IGNORECASE | re.MULTILINE,
)  # fmt: skip
_ROW = re.compile(r"^\s*\|(.+)\|\s*$")
_RULE = re.compile(r"^\s*\|?(?:\s*:?-+:?\s*\|)+\s*:?-*:?\s*\|?\s*$")
_ANSWER = re.compile(r"(?:expected\s+)?(?:results?|returns?|outputs?|answers?|expected|value returned|gives)", re.I)
_INPUT = re.compile(r"(?:inputs?|arguments?|given|parameters?)", re.I)


def blocks(instruction: str, speaker: Speaker) -> Iterator[tuple[str, str, str]]:
    """``(call, answer, line)`` for each example that names input and output as literals."""
    for match in _PAIR.finditer(instruction):
        said = _literal(match["said"].rstrip(".") if not match["said"].endswith("..") else match["said"])
        call = _call(match["given"].rstrip(",;"), speaker)
        if call is not None and said is not None:
            yield call, said, " ".join(match[0].split())
    yield from _tables(instruction, speaker)


def _literal(text: str) -> str | None:
    """``repr`` of a text that is one literal, code marks aside."""
    bare = _bare(text)
    said = literal_at(bare)
    # In a list of its own it is seen whether anything stands behind it.
    alone = said is not None and parsed(bare) is not None and literal_at(f"[{bare}]") == f"[{said}]"
    return said if alone else None


def _bare(text: str) -> str:
    return text.strip().strip("`").strip()


def _call(given: str, speaker: Speaker) -> str | None:
    """The call with arguments as a block writes them: the call itself, literals, or ``name = literal`` each."""
    bare = _bare(given)
    call = call_in_normal_form(bare, speaker.function)
    if call is None:
        call = call_in_normal_form(f"{speaker.function}({bare})", speaker.function)
    told = arguments(call) if call else None
    if call is None or told is None or told[0] < 0 or not speaker.names:
        return None
    place, named = told
    if named - set(speaker.names) or not len(speaker.needed) <= place + len(named) <= len(speaker.names):
        return None
    in_order = re.findall(r"(\w+)\s*=", call) if named else []
    if not place and in_order == list(speaker.names[: len(in_order)]):
        plain = re.sub(r"(?<=[(\s])(?:" + "|".join(map(re.escape, in_order)) + r")=", "", call)
        return call_in_normal_form(plain, speaker.function)
    return call


def _tables(instruction: str, speaker: Speaker) -> Iterator[tuple[str, str, str]]:
    lines = instruction.splitlines()
    for i, line in enumerate(lines[:-1]):
        if not _RULE.match(lines[i + 1]) or not _ROW.match(line):
            continue
        heads = [cell.strip("`*_ ") for cell in _cells(line)]
        last = next((j for j, head in enumerate(heads) if _ANSWER.fullmatch(head)), None)
        if last is None or sum(bool(_ANSWER.fullmatch(head)) for head in heads) > 1:
            continue
        of_names = heads[:last] == list(speaker.needed)[:last] and last == len(speaker.needed)
        if not (of_names or (last == 1 and _INPUT.fullmatch(heads[0]))):
            continue
        for row in lines[i + 2 :]:
            if not _ROW.match(row):
                break
            cells = _cells(row)
            if len(cells) != len(heads):
                continue
            call = _call(", ".join(cell.strip().strip("`") for cell in cells[:last]), speaker)
            said = _literal(cells[last])
            if call is not None and said is not None:
                yield call, said, row.strip()


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
