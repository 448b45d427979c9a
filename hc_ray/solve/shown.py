"""The uses that an instruction shows of a command, a program or a pattern, with what it says comes out. Purely textual:
arbitrary text never raises."""

import re

from hc_ray.solve.requirements import sentences
from hc_ray.solve.target import reads_stdin
from hc_ray.value import Value


class Use(Value):
    """One use: what is given, and what the instruction says comes out (None: it does not say)."""

    arguments: str = ""
    stdin: str = ""
    output: str | None = None
    first_line_only: bool = False
    """``output`` is only the first line of what comes out."""
    makes: str = ""
    """A file that the use is said to make."""


_SAYS = re.compile(
    r"`?\s*(?:it |this |that )?(?:(?:should |must |will )?(?:prints?|outputs?|writes?|gives?)|->|=>|→)\s*:?\s*"
)
_TOLD = r"(?:`([^`\n]+)`|\"([^\"\n]+)\")"
_MORE = re.compile(rf"(?:,? and |, ){_TOLD}")
_PIPED = re.compile(r"(?:echo|printf) (?:\"([^\"`\n]*)\"|'([^'`\n]*)'|([\w.-]+)) \| ")
_GIVEN = re.compile(
    r"\b(?:with|for) (?:the arguments? `(?P<arguments>[^`\n]+)`)?(?: and )?"
    r"(?:the input (?:is |of )?`(?P<stdin>[^`\n]+)`)?"
    r"[^`.\n]{0,20}?\b(?P<says>prints?|outputs?|gives?|output is|answer is|first line is|makes|creates|writes)\s+"
    r"(?:the file )?`(?P<told>[^`\n]+)`", re.IGNORECASE,
)  # fmt: skip
_INPUT_IS = re.compile(
    r"\binput (?:is |of )`(?P<stdin>[^`\n]+)`[^`.\n]{0,40}?\b(?:prints?|outputs?|gives?|output is|answer is)\s+"
    r"`(?P<told>[^`\n]+)`", re.IGNORECASE,
)  # fmt: skip
_FOR_TEXT = re.compile(r"\bfor `(?P<stdin>[^`\n]+)` the first line is `(?P<told>[^`\n]+)`", re.IGNORECASE)


def uses(instruction: str, path: str) -> tuple[Use, ...]:
    """Every use of the command or program at ``path``, those with a stated outcome first, each input once."""
    found = [*_called(instruction, path), *_given(instruction)]
    kept: dict[tuple[str, str], Use] = {}
    for use in sorted(found, key=lambda use: use.output is None and not use.makes):
        kept.setdefault((use.arguments, use.stdin), use)
    return tuple(kept.values())


def _called(instruction: str, path: str) -> list[Use]:
    """Uses that stand in code: ``sh name.sh a b``, ``echo x | ./name``."""
    name = re.escape(path.rsplit("/", 1)[-1])
    stem = re.escape(path.rsplit("/", 1)[-1].rsplit(".", 1)[0])
    started = r"(?:(?:ba)?sh |python3? )?(?:\./|/(?:[\w.-]+/)*)?"
    code = re.compile(
        rf"(?:`|^[ \t>$]*)({_PIPED.pattern})?{started}(?:{name}|(?<=/){stem})((?: [^`\n]*)?)(?:`|$)", re.MULTILINE
    )
    found = []
    for match in code.finditer(instruction):
        piped, arguments = match[2] or match[3] or match[4] or "", match[5].strip()
        if re.search(r"[<>|;&]|\bARG|\.\.\.|\$", arguments) or not (piped or arguments):
            continue
        output = None
        if said := _SAYS.match(instruction, match.end()):
            told = re.match(_TOLD, instruction[said.end() :])
            output = _and_more(told[1] or told[2], instruction, said.end() + told.end()) if told else None
        found.append(Use(arguments=arguments, stdin=piped + "\n" if piped else "", output=output))
    return found


def _given(instruction: str) -> list[Use]:
    """Uses that are told in words: "for the input … it prints …", "with the argument … it makes …"."""
    found = []
    told = [*_GIVEN.finditer(instruction)]
    if reads_stdin(instruction):
        told += [*_INPUT_IS.finditer(instruction), *_FOR_TEXT.finditer(instruction)]
    for match in told:
        parts = match.groupdict()
        arguments, stdin, says = (
            parts.get("arguments") or "",
            parts.get("stdin") or "",
            (parts.get("says") or "").lower(),
        )
        if not arguments and not stdin:
            continue
        first = says == "first line is" or match.re is _FOR_TEXT
        makes = match["told"] if says in ("makes", "creates", "writes") else ""
        output = None if makes else _and_more(match["told"], instruction, match.end())
        found.append(
            Use(arguments=arguments, stdin=stdin + "\n" if stdin else "", output=output, first_line_only=first,
                makes=makes)
        )  # fmt: skip
    return found


def _and_more(told: str, text: str, end: int) -> str:
    """``told`` with the further lines that the text goes on to list: "it prints `a` and `b`"."""
    lines = [told]
    while more := _MORE.match(text, end):
        lines.append(more[1] or more[2])
        end = more.end()
    return "\n".join(lines)


_REFUSES = re.compile(r"\bnot\b|n't\b|\bnever\b", re.IGNORECASE)
_REFUSED = re.compile(r"\s*(?:does|do|is|are|must|should|may)(?: not\b|n't\b)", re.IGNORECASE)


def pattern_examples(instruction: str) -> tuple[tuple[str, bool], ...]:
    """``(text, must match)`` for every quoted text in a sentence that speaks of matching; ends of a range match."""
    found: dict[str, bool] = {}
    for sentence in sentences(instruction):
        if not re.search(r"\bmatch", sentence, re.IGNORECASE):
            continue
        for clause in re.split(r"\bbut\b|;", sentence):
            for quoted in re.finditer(r"`([^`\n]+)`|\"([^\"\n]+)\"", clause):
                text = quoted[1] or quoted[2]
                if re.search(r"\.(?:txt|re|regex|rx|pattern|log)$|\bre\.\w+", text) or _is_part(clause, quoted):
                    continue
                until = re.search(r"[`\"]", clause[quoted.end() :])
                after = clause[quoted.end() :][: until.start() if until else None]
                refused = _REFUSES.search(clause[: quoted.start()]) or _REFUSED.match(after)
                found.setdefault(text, refused is None)
    return tuple(found.items())


def _is_part(clause: str, quoted: re.Match[str]) -> bool:
    """Whether a quoted text is a piece or a shape of what matches (a ``#`` and then …; written ``YYYY-MM-DD``)."""
    before, after = clause[: quoted.start()], clause[quoted.end() :]
    shape = re.search(r"\b(?:written|of the form|in the form|the form|format)\s*$", before, re.IGNORECASE)
    piece = re.search(r"\b(?:an?|the|one|with|by)\s*$", before, re.IGNORECASE) and re.match(
        r"\s*(?:and|followed|then|,|:)", after
    )
    return bool(shape or piece)
