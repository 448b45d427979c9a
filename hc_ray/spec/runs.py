"""Runs of programs that an instruction shows: sessions at a prompt, Input/Output blocks, tables, and code spans such as
"`sh x.sh a` prints `b`"."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

from hc_ray.spec.markdown import Block, Piece, block_sentences
from hc_ray.spec.spec import NamedFile, Run

_SESSIONS = frozenset(
    {"", "console", "shell", "sh", "bash", "zsh", "shell-session", "shellsession", "terminal", "text"}
)
_PROMPT = re.compile(r"^\s*((?:\(\w+\)\s*)?(?:[\w.-]+@[\w.-]+[:\s]?[\w.~/-]*)?[$%#>]) +(\S.*)$")
_PROGRAM = re.compile(
    r"(?:time\s+|sudo\s+)?(?:(?:ba|z)?sh|python[\d.]*|node|ruby|perl|java|Rscript)\s+[^\s-]\S*|\./\S|\bpython3? -m \w"
)
_BEFORE = re.compile(r"^(?:echo|printf|cat|seq|yes)\b[^|;&]*\|\s*")
_CHANGES = re.compile(r"^(?:cd|export|source|\.|set|umask|rm|mv|cp|pushd)\b|(?<![<>\d])>(?!&)")
"""A command whose effects a later one of its session may show."""
_CUT = re.compile(r"^\s*(?:\.\.\.|…|\[\.\.\.\]|\(\.\.\.\))\s*$|\.\.\.$|…$", re.MULTILINE)
_HOLE = re.compile(r"\.\.\.|…|(?<![<\d])<[A-Za-z][\w -]*>|\[-|\{[a-z_]+\}|/path/to/|\\$|(?<!<)<<(?!<)")
"""What a reader has to fill in (such a line is a description of commands), or what goes on below it."""
_REMARK = re.compile(r"\S\s+(?:#|//|<-|<--|←)\s+\w")
_LABEL = re.compile(
    r"[\s*_#>-]*(?:(?:example|sample|expected)\s+)*(input|output)(?:\s*#?\d+)?[\s*_]*(?::[\s*_]*(.*?))?[\s_]*",
    re.IGNORECASE,
)
_PRINTS = re.compile(r"\s*(?:should )?(?:prints?|gives?|returns?|->|=>|→|⇒)\s*:?\s*")
_ENDS = re.compile(r"\s*(?:$|[.;:)!?](?:\s|$)|,\s*(?!$))")
_CELL = re.compile(r"`(?P<span>[^`]+)`|(?P<bare>[-+]?[\w.]+(?: [-+]?[\d.]+)*)")
"""A cell that means literally what it holds: a code span or a plain word."""
_PATH = re.compile(r"[\w.~-]*/[\w./-]+|[\w-]+\.[A-Za-z]\w{0,4}")


def read_runs(blocks: Sequence[Block], files: Iterable[NamedFile]) -> tuple[Run, ...]:
    """All runs in order, one per command and input; one with an output wins."""
    names = frozenset(name for file in files for name in (file.path, posixpath.basename(file.path)))
    kept: dict[tuple[str, str], Run] = {}
    readers = {"code": _of_session, "table": _of_table}
    shown = (run for block in blocks for run in readers.get(block.kind, _of_spans)(block, names))
    for run in [*_labelled(blocks), *shown]:
        place = (run.command, run.stdin)
        if place not in kept or (kept[place].output is None and run.output is not None):
            kept[place] = run
    return tuple(kept.values())


def _is_program(command: str, names: frozenset[str]) -> bool:
    """Whether a command line starts a program: an interpreter with a file, a file of this directory, a named file."""
    command = _BEFORE.sub("", command)
    first = (command.split() or [""])[0]
    return (
        _PROGRAM.match(command) is not None
        or first in names
        or (first[:1] == "/" and posixpath.basename(first) in names)
    )


# Sessions


def _of_session(block: Block, names: frozenset[str]) -> Iterator[Run]:
    """The commands of a block that opens with a prompt, each with what stands below it; none of any other block."""
    lines = block.text.split("\n")
    first = _PROMPT.match(lines[0]) if block.language in _SESSIONS else None
    if first is None or (first[1] in "#>" and not _is_program(first[2], frozenset())):
        return
    steps: list[tuple[str, list[str]]] = []
    for line in lines:
        match = _PROMPT.match(line)
        if match is not None and match[1][-1] == first[1][-1]:
            steps.append((match[2].rstrip(), []))
        elif line.strip() != first[1]:
            steps[-1][1].append(line)
    known = True
    for command, told in steps:
        below = "\n".join(told).strip("\n")
        if _HOLE.search(command):
            known = False
            continue
        whole = known and below.strip() and not _CUT.search(below) and not _REMARK.search(below)
        if whole or _is_program(command, names):
            yield Run(command=command, output=f"{below}\n" if whole else None, sentence=" ".join(command.split()))
        # What a later command prints may depend on this one, which a test of that one alone would lack.
        known = known and _CHANGES.search(command) is None


# Labels


def _labelled(blocks: Sequence[Block]) -> Iterator[Run]:
    """Pairs of an Input and the Output that comes next."""
    given: str | None = None
    for role, text, sentence in _parts(blocks):
        if role == "input":
            given = None if _PATH.fullmatch(text.strip()) else text
        elif given is not None:
            if not _PATH.fullmatch(text.strip()):
                yield Run(command="", stdin=_line(given), output=_open(_line(text)), sentence=sentence)
            given = None


def _parts(blocks: Sequence[Block]) -> Iterator[tuple[str, str, str]]:
    """Each label with its text: the block of code below it, the code span beside it, or the lines that follow it within
    a block of code."""
    role = ""
    for block in blocks:
        if block.kind == "code" and role:
            yield role, block.text, _short(block.text)
        elif block.kind == "code" and block.language in ("", "text", "plaintext"):
            yield from _within(block.text)
        role = ""
        for line in block.text.split("\n") if block.kind not in ("code", "table") else ():
            match = _label(line)
            value = (match[2] or "").strip(" *_") if match else ""
            role = match[1].lower() if match and not value else ""
            if match and re.fullmatch(r"`[^`]+`", value):
                yield match[1].lower(), value[1:-1], " ".join(line.split())


def _within(text: str) -> Iterator[tuple[str, str, str]]:
    role, held = "", list[str]()
    for line in [*text.split("\n"), "Output:"]:
        # In lower case or indented it is a field of some other language.
        match = _label(line) if re.match(r"[A-Z]", line) else None
        if match is None and not re.match(r"[A-Z][a-z]+( \d+)?:", line):
            held.append(line)
            continue
        said = "\n".join(held).strip("\n")
        if role and said:
            yield role, said, _short(said)
        role, held = (match[1].lower(), [match[2] or ""]) if match else ("", [])


def _label(line: str) -> re.Match[str] | None:
    return _LABEL.fullmatch(line) if len(line) < 300 else None


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _line(text: str) -> str:
    return text.rstrip("\n") + "\n"


def _open(output: str) -> str | None:
    return None if _CUT.search(output) else output


# Tables and spans


def _of_table(block: Block, names: frozenset[str]) -> Iterator[Run]:
    """Rows of two columns: what is given, or the command, and what comes out."""
    heads = [_label(cell) for cell in block.rows[0]] if block.rows else []
    if len(heads) != 2 or heads[1] is None or heads[1][1].lower() != "output":
        return
    for row in block.rows[1:]:
        given, output = map(_CELL.fullmatch, row)
        if given is None or output is None:
            continue
        said = {"output": _line(output["span"] or output["bare"]), "sentence": " | ".join(row)}
        if heads[0] is not None and heads[0][1].lower() == "input":
            yield Run(command="", stdin=_line(given["span"] or given["bare"]), **said)
        elif given["span"] and _is_program(given["span"], names) and not _HOLE.search(given["span"]):
            yield Run(command=given["span"], **said)


def _of_spans(block: Block, names: frozenset[str]) -> Iterator[Run]:
    said: list[str] = []
    for at, piece in enumerate(block.pieces):
        if not piece.code or " " not in piece.text or not _is_program(piece.text, names) or _HOLE.search(piece.text):
            continue
        output = _printed(block.pieces[at + 1 : at + 4])
        if output is not None:
            said = said or block_sentences(block)
            sentence = next((one for one in said if piece.text in one), piece.text)
            yield Run(command=piece.text, output=output, sentence=sentence)


def _printed(behind: Sequence[Piece]) -> str | None:
    """The output that stands right behind a command: a connector, a code span, and the end of what is said of it."""
    if len(behind) < 2 or behind[0].code or not behind[1].code or not _PRINTS.fullmatch(behind[0].text):
        return None
    whole = len(behind) < 3 or _ENDS.match(behind[2].text)
    made = _PATH.fullmatch(behind[1].text) and "print" not in behind[0].text  # a file that it writes
    return _open(_line(behind[1].text)) if whole and not made else None
