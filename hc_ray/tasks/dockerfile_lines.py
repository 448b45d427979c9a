"""Splits the text of a Dockerfile into instructions: directives, comments, continuations, heredocs, words,
variables."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

_DIRECTIVE = re.compile(r"^#\s*([A-Za-z][A-Za-z0-9]*)\s*=\s*(\S+)\s*$")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_HEREDOC = re.compile(rf"(?:^|\s)\d*<<-?([\"']?)({_NAME})\1(?=\s|$)")
_VARIABLE = re.compile(
    rf"\\(?P<escaped>.)|\$(?P<name>{_NAME})|\$\{{(?P<braced>{_NAME})(?::?(?P<sign>[-+])(?P<word>[^{{}}]*))?\}}",
    re.DOTALL,
)
_WHOLE = rf"\\.|\$\{{{_NAME}(?::?[-+][^{{}}]*)?\}}"
_PARTS = re.compile(rf"'[^']*'?|\"(?:{_WHOLE}|[^\"\\])*\"?|(?:{_WHOLE}|[^'\"\\])+|\\", re.DOTALL)
"""Quoted texts, and the text between them."""


@dataclass(frozen=True)
class Instruction:
    line: int
    """Its first line, from 1."""
    word: str
    """In capitals."""
    rest: str
    flags: dict[str, str] = field(default_factory=dict)
    """``--name=value`` before the arguments; not for RUN's own command."""
    heredoc: bool = False


def read_lines(text: str) -> tuple[list[Instruction], dict[str, str]]:
    """The instructions and directives of a Dockerfile. Accepts any text; nonsense becomes unknown instructions."""
    lines = text.lstrip("\ufeff").split("\n")
    directives: dict[str, str] = {}
    position = 0
    while position < len(lines) and (found := _DIRECTIVE.match(lines[position].strip())):
        if found[1].lower() in directives:
            break
        directives[found[1].lower()] = found[2]
        position += 1
    instructions = []
    while position < len(lines):
        start = position
        joined, position = _join(lines, position)
        if not joined.strip():
            continue
        instruction = _instruction(start + 1, joined.strip())
        if instruction.heredoc:
            position = _after_heredocs(lines, position, instruction.rest)
        instructions.append(instruction)
    return instructions, directives


def _join(lines: list[str], position: int) -> tuple[str, int]:
    """Read one logical line: join continuations, and drop comments and blank lines within."""
    joined = ""
    going = False
    while position < len(lines):
        line = lines[position].rstrip("\r")
        position += 1
        if line.lstrip().startswith("#") or (going and not line.strip()):
            if not going:
                return "", position
            continue
        stripped = line.rstrip()
        if not stripped.endswith("\\"):
            return joined + line, position
        joined += stripped[:-1]
        going = True
    return joined, position


def _after_heredocs(lines: list[str], position: int, rest: str) -> int:
    for _, end in _HEREDOC.findall(rest):
        while position < len(lines) and lines[position].strip() != end:
            position += 1
        position += 1
    return position


def _instruction(line: int, joined: str) -> Instruction:
    word, rest = [*joined.split(None, 1), ""][:2]
    flags: dict[str, str] = {}
    while found := re.match(r"--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)", rest):
        flags[found[1]] = found[2] or ""
        rest = rest[found.end() :]
    word = word.upper()
    heredoc = word in ("RUN", "COPY", "ADD") and bool(_HEREDOC.search(rest))
    return Instruction(line=line, word=word, rest=rest.strip(), flags=flags, heredoc=heredoc)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Substitute variables as Docker does: ``$NAME``, ``${NAME}``, ``${NAME:-word}``, ``${NAME:+word}``. Keeps quotes,
    and replaces nothing between single quotes. Unknown names are empty."""

    def put(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$" if found["escaped"] == "$" else found[0]  # ``words`` handles every other escape
        value = values.get(found["name"] or found["braced"], "")
        if found["sign"] == "-":
            return value or expand(found["word"], values)
        if found["sign"] == "+":
            return expand(found["word"], values) if value else ""
        return value

    return "".join(part if part[0] == "'" else _VARIABLE.sub(put, part) for part in _PARTS.findall(text))


def words(text: str) -> list[str]:
    """Split at white space outside quotes, and remove quotes and escapes."""
    try:
        return shlex.split(text)
    except ValueError:  # an unclosed quotation, which no builder accepts
        return text.split()
