"""Fenced code blocks of a chat answer."""

import posixpath
import re

from hc_ray.agent.deliverable import Language
from hc_ray.domain.value import Value

_OPENING = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_NAMES: dict[Language, tuple[str, ...]] = {
    "python": ("python", "py", "python3"), "shell": ("sh", "bash", "shell"), "c": ("c",), "json": ("json",),
    "csv": ("csv", "tsv"), "text": ("text", "txt", "plaintext"),
}  # fmt: skip
_PATH_FORM = r"/?(?:[\w.+-]+/)*[\w.+-]*[\w+-]\.[A-Za-z][\w+]{0,7}|/(?:[\w.+-]+/)+[\w.+-]+"
_PATH = re.compile(rf"(?<![\w./-])({_PATH_FORM})(?![\w/-])")
"""An unambiguous path: with a suffix, or absolute and below a folder."""
_PATH_ALONE = re.compile(rf"(?:#|//|/\*)\s*(?:(?:file|filename|path):\s*)?(?:{_PATH_FORM})\s*(?:\*/)?", re.IGNORECASE)
"""A comment that consists of a path only; prose about a file, or a ``#!`` line, does not count."""


class Block(Value):
    """One fenced block."""

    info: str
    """The text after the opening fence."""
    heading: str
    """The last non-empty line before the block."""
    text: str
    """The lines between the fences, each with its line end."""
    closed: bool
    """False if the answer ended before the closing fence."""

    @property
    def language(self) -> str:
        """The first word after the fence, in lower case."""
        return self.info.split(" ")[0].lower()


def read_blocks(answer: str) -> tuple[Block, ...]:
    """All fenced blocks of ``answer``, in order; an unclosed one extends to the end. Fences inside a block belong to
    its text, whatever their length, if each that names something is closed."""
    blocks: list[Block] = []
    heading, mark, info = "", "", ""
    held: list[str] = []
    inner = 0
    for line in answer.split("\n"):
        opening = _OPENING.match(line.rstrip("\r"))
        if mark:
            if _closes(line, mark) and not inner:
                blocks.append(Block(info=info, heading=heading, text="".join(held), closed=True))
                mark, heading, held = "", "", []
                continue
            held.append(line + "\n")
            if _closes(line, mark):
                inner -= 1
            elif opening and opening[1].startswith(mark) and opening[2].strip():
                inner += 1
        elif opening:
            mark, info, inner = opening[1], opening[2].strip(), 0
        elif line.strip():
            heading = line.strip()
    if mark:
        text = "".join(held)
        # The last piece is the rest after the last line break, not a complete line.
        text = text[:-1] if text.endswith("\n\n") or text == "\n" else text
        blocks.append(Block(info=info, heading=heading, text=text, closed=False))
    return tuple(blocks)


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(mark) and set(stripped) == {mark[0]} and len(line) - len(line.lstrip(" ")) <= 3


def named_blocks(blocks: tuple[Block, ...]) -> dict[str, Block]:
    """Path → block, for blocks that name a path: on the line above, after the fence, or alone in a first comment."""
    found: dict[str, Block] = {}
    for block in blocks:
        comment = _first_comment(block)
        for line in (block.heading, block.info, comment if _PATH_ALONE.fullmatch(comment) else ""):
            if (match := _PATH.search(line)) is not None:
                found.setdefault(posixpath.normpath(match[1]), block)
                break
    return found


def pick_block(blocks: tuple[Block, ...], path: str, language: Language) -> Block | None:
    """The block with the file: the one that names its path, or else the first in its language, or else the first
    without another language."""
    name = posixpath.basename(path)
    for told in (path, name):
        for block in blocks:
            if _names(block.heading, told) or _names(block.info, told) or _names(_first_comment(block), told):
                return block
    spoken = [block for block in blocks if block.language in _NAMES[language]]
    return next((block for block in spoken or blocks if not _contradicts(block, language)), None)


def _contradicts(block: Block, language: Language) -> bool:
    """Whether a block is a program although data was requested, or is in another language: models tend to answer in the
    language that they know best. A single line may be anything."""
    others = [name for kind in ("python", "c") if kind != language for name in _NAMES[kind]]
    return block.language in others and "\n" in block.text.strip()


def _names(line: str, path: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(path)}(?![\w-]|\.\w)", line) is not None


def _first_comment(block: Block) -> str:
    line = block.text.partition("\n")[0].strip()
    return line if line.startswith(("#", "//", "/*")) else ""
