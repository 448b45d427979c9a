"""The text of a Dockerfile as instructions: directives, comments, continuations, heredocs, words and variables."""

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
"""Texts within quotes, and what stands between them."""


@dataclass(frozen=True)
class Instruction:
    line: int
    """Where it begins, from 1."""
    word: str
    """In capitals."""
    rest: str
    flags: dict[str, str] = field(default_factory=dict)
    """``--name=value`` before the arguments; not for RUN's own command."""
    heredoc: bool = False


def read_lines(text: str) -> tuple[list[Instruction], dict[str, str]]:
    """The instructions and directives of a Dockerfile. Any text is read; what makes no sense comes out as instructions
    that nobody knows."""
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
    """One logical line: continuations joined; comments and blank lines within them dropped."""
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
    """Docker's substitution: ``$NAME``, ``${NAME}``, ``${NAME:-word}``, ``${NAME:+word}``; quotes are kept, and nothing
    is replaced between single quotes. An unknown name is empty, as in Docker."""

    def put(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$" if found["escaped"] == "$" else found[0]  # every other escape is left for ``words``
        value = values.get(found["name"] or found["braced"], "")
        if found["sign"] == "-":
            return value or expand(found["word"], values)
        if found["sign"] == "+":
            return expand(found["word"], values) if value else ""
        return value

    return "".join(part if part[0] == "'" else _VARIABLE.sub(put, part) for part in _PARTS.findall(text))


def words(text: str) -> list[str]:
    """Split at white space outside quotes; quotes and escapes are taken off."""
    try:
        return shlex.split(text)
    except ValueError:  # a quotation without an end, which no builder takes
        return text.split()
