"""An instruction as Markdown: its blocks, the code spans within them, its sentences. The only owner of markdown-it.

Only blocks and code spans are read: without links, emphasis and block quotes no text takes more than linear time, and
``>`` stays what it is in instructions, a prompt sign."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hc_ray.domain.value import Value

Kind = Literal["prose", "heading", "item", "code", "table"]

_BLOCKS = ["table", "code", "fence", "hr", "list", "heading", "lheading", "paragraph"]
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)\s+(?=[A-Z`\"'(*])|\n(?=>>> )")
_EMPHASISED = re.compile(r"([*_]{1,3})(?=\S)(?:(?!\1).)+(?<![.!?])\1:?", re.DOTALL)
_OPEN: dict[str, Kind] = {"list_item_open": "item", "heading_open": "heading", "table_open": "table"}


class Piece(Value):
    """A part of a block's text: a code span, or the text between two."""

    text: str
    code: bool = False


class Block(Value):
    """One block of an instruction."""

    kind: Kind
    text: str
    """As written, code spans with their backticks; code without fence and indentation."""
    pieces: tuple[Piece, ...] = ()
    """The text in parts; empty for code."""
    language: str = ""
    """What a fence names, in lower case."""
    rows: tuple[tuple[str, ...], ...] = ()
    """A table's cells, its head first."""

    @property
    def spans(self) -> tuple[str, ...]:
        return tuple(piece.text for piece in self.pieces if piece.code)


def blocks(text: str) -> tuple[Block, ...]:
    """All blocks in order; an unclosed fence extends to the end."""
    return tuple(_blocks(_parser().parse(text)))


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("zero", {"maxNesting": 20}).enable([*_BLOCKS, "backticks"])


def _blocks(tokens: Sequence[Token]) -> Iterator[Block]:
    inside: list[Kind] = ["prose"]
    rows: list[list[str]] = []
    for token in tokens:
        if token.type in _OPEN:
            inside.append(_OPEN[token.type])
        elif token.type in ("list_item_close", "heading_close"):
            inside.pop()
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "table_close":
            yield _table(rows)
            rows = []
            inside.pop()
        elif token.type in ("fence", "code_block"):
            yield Block(kind="code", text=token.content.strip("\n"), language=(token.info.split() or [""])[0].lower())
        elif token.type == "inline":
            if inside[-1] == "table":
                rows[-1].append(token.content.strip())
            elif token.content.strip():
                yield Block(kind=inside[-1], text=token.content, pieces=tuple(_pieces(token.children)))


def _table(rows: Sequence[Sequence[str]]) -> Block:
    text = "\n".join(" | ".join(row) for row in rows)
    spans = tuple(_pieces(_parser().parseInline(text)[0].children))
    return Block(kind="table", text=text, pieces=spans, rows=tuple(tuple(row) for row in rows))


def _pieces(tokens: Sequence[Token] | None) -> Iterator[Piece]:
    """The code spans of a text, and the text between them."""
    for token in tokens or ():
        if token.type == "code_inline":
            yield Piece(text=token.content.strip(), code=True)
        elif token.content:
            yield Piece(text=token.content)


def sentences(all_blocks: Sequence[Block]) -> tuple[str, ...]:
    """Sentences, list items' sentences, table rows and code lines in order, white space normalised. Headings, which ask
    for nothing, only where there is nothing else."""
    said = [block for block in all_blocks if block.kind != "heading"] or all_blocks
    return tuple(sentence for block in said for sentence in block_sentences(block))


def titles(all_blocks: Sequence[Block]) -> set[str]:
    """Sentences that by their form only say what follows: a block that is emphasised as a whole, and what ends in a
    colon before a list or a table, or is one word. One that names something in code may ask for it, and so may one
    before a block of code, which is no sentence."""
    found = set()
    for block, after in zip_longest(all_blocks, all_blocks[1:]):
        last = block_sentences(block)[-1:] if block.kind in ("prose", "item") else []
        for said in last if not block.spans else ():
            listed = after is not None and after.kind in ("item", "table")
            leads = said.rstrip("*_").endswith(":") and (listed or " " not in said)
            if leads or (block.kind == "prose" and _EMPHASISED.fullmatch(block.text.strip())):
                found.add(said)
    return found


def block_sentences(block: Block) -> list[str]:
    parts = block.text.split("\n") if block.kind in ("code", "table") else _parted(block.pieces)
    normal = (" ".join(part.split()) for part in parts)
    return [part for part in normal if part]


def _parted(parts: Sequence[Piece]) -> list[str]:
    """Split a text into sentences, never within a code span."""
    made = [""]
    for piece in parts:
        if piece.code:
            made[-1] += f"`{piece.text}`"
            continue
        # A span that follows begins a sentence as a capital letter does.
        first, *others = _SENTENCE_END.split(piece.text + "`")
        made[-1] += first
        made += others
        made[-1] = made[-1].removesuffix("`")
    return made
