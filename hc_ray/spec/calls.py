"""Finds calls with their shown values in any text: an instruction's examples, a model's tests. Never raises."""

import ast
import re
from collections import Counter

from hc_ray.spec.source import expression
from hc_ray.spec.spec import Call

_ALLOWED = frozenset({
    "list", "range", "set", "frozenset", "tuple", "dict", "float", "int", "str", "bool", "bytes", "len", "abs", "sum",
    "min", "max", "sorted", "chr", "ord", "reversed", "zip",
})  # fmt: skip
_METHODS = frozenset({"join", "upper", "lower", "strip", "split", "replace", "title", "encode"})
_BIGGEST, _MOST_REPEATS = 10**9, 10**5
_NODES = (
    ast.Expression, ast.Call, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.UAdd,
    ast.Not, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Name, ast.Load, ast.keyword, ast.Attribute,
    ast.Starred,
)  # fmt: skip
_SAYS = r"(?:returns?|gives?)\b"
_ARROW = re.compile(
    rf"\s*(?:={{1,3}}>|==|[-=]*->|→|⇒|⟶|↦|(?:is|should be)\b(?!\s+not)|=|#|:|\||(?:should )?{_SAYS})"
    rf"\s*(?:->|=>|→|{_SAYS})?\s*:?\s*"
)
"""The text between a call and its value; no other words are recognised."""
_BELOW = re.compile(r"[ \t]*\n(?:\s*\n)?(?:[ \t]*(?:```|~~~)[\w+-]*[ \t]*\n)?[ \t]*(?=\S)")
_WHOLE = re.compile(r"\s*(?:$|[.,;:!?)|#'\"]|//|\s\()")
"""What follows a literal that is the whole value; any other word or sign makes it a part of something longer."""
_PART = re.compile(r"[\w)\]}]\s*[-+*/%]\s*$|\b(?:def|not)\s*$")
"""What stands before a call that is a part of a sum or the like, or a definition."""
_NEXT_CELL = re.compile(r"\s*\|\s*(?:True\b|False\b|None\b|[^\sA-Za-z|])")
_RAISES = re.compile(
    r"^\W*(?:should )?raises?\b|#\s*raises?\b"
    r"|^\s*(?:[-=]*>|→|⇒|#|:|\||==)\s*(?:an?\s+)?(?-i:[A-Z]\w*(?:Error|Exception))\b",
    re.IGNORECASE,
)
_SCALAR = re.compile(r"-?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+)(?![\w])|True\b|False\b|None\b")
_STRING = re.compile(r"[bB]?(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")


def find_calls(text: str, *names: str, limit: int = 64) -> dict[int, Call]:
    """Calls of these functions in reading order, by where they stand, each with what the text says of its answer; of
    each function at most ``limit``."""
    found: dict[int, Call] = {}
    counts: Counter[str] = Counter()
    for match in re.finditer(rf"(?<![\w.])({'|'.join(map(re.escape, names))})\s*\(", text) if names else ():
        start, name = match.start(), match[1]
        end = balanced(text, match.end() - 1) if counts[name] < limit else None
        if end is None or end - start > 400:
            continue
        call = call_in_normal_form(text[start:end], name)
        if call is not None:
            expected, rejected = _answer(text, start, end)
            found[start] = Call(call=call, function=name, expected=expected, rejected=rejected,
                                sentence=_line_at(text, start))  # fmt: skip
            counts[name] += 1
    return found


def _line_at(text: str, place: int) -> str:
    start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    return " ".join(text[start : end if end >= 0 else len(text)].split())


def _answer(text: str, start: int, end: int) -> tuple[str | None, bool]:
    """What is said of the call that stands there: the ``repr`` of its value, if that can be read, and whether it is
    shown to raise."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    before = text[line_start:start]
    tail = text[end : line_end if line_end >= 0 else len(text)].replace("`", "")
    if _RAISES.search(tail):
        return None, True
    if _PART.search(before):
        return None, False
    value = None
    following = text[line_end : line_end + 800].replace("`", "") if line_end >= 0 else ""
    session = before.strip() == ">>>" and (not tail.strip() or tail.lstrip().startswith("#"))
    arrow = _ARROW.match(tail)
    if arrow and not (arrow[0].lstrip().startswith("#") and before.rstrip().endswith(",")):
        value = _said(tail[arrow.end() :] + following, cell=arrow[0].strip() == "|")
        if (
            not tail[arrow.end() :].strip()
            and re.search(r"\w|[-=]>|→|⇒", arrow[0])
            and (below := _BELOW.match(text, line_end))
        ):
            value = _said(text[below.end() : below.end() + 800].replace("`", ""))
    if value is None and session and line_end >= 0:
        if following.lstrip().startswith("Traceback (most"):
            return None, True
        value = _said(following[1:]) if following[1:].split("\n", 1)[0].strip() else None
    return value, False


def _said(text: str, *, cell: bool = False) -> str | None:
    """The literal that a text starts with, unless it is part of a longer expression or one of several cells."""
    found = _literal(text.split("\n", 1)[0] if text.lstrip()[:1] not in ("(", "[", "{") else text)
    if found is None:
        return None
    rest = text.lstrip()[found[1] :].split("\n", 1)[0]
    return None if not _WHOLE.match(rest) or (cell and _NEXT_CELL.match(rest)) else found[0]


def call_in_normal_form(source: str, name: str) -> str | None:
    """The call as ``ast.unparse`` writes it; None unless it is one call of ``name`` with harmless, closed arguments."""
    tree = expression(source)
    if tree is None or not isinstance(tree.body, ast.Call) or not isinstance(tree.body.func, ast.Name):
        return None
    try:
        return ast.unparse(tree) if tree.body.func.id == name and _harmless(tree, name) else None
    except RecursionError:  # the parser accepts deeper nesting than ``unparse``
        return None


def _harmless(tree: ast.Expression, name: str) -> bool:
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, ast.Name) and node.id not in _ALLOWED and node.id != name:
            return False
        if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) > _BIGGEST:
            return False
        if isinstance(node, ast.Mult | ast.Div) and len(ast.dump(tree)) > 4000:
            return False
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
            if any(isinstance(value, int) and abs(value) > _MOST_REPEATS for value in sides):
                return False
    return True


def balanced(text: str, start: int) -> int | None:
    """The index after the bracket that closes the one at ``start``; None if nothing closes it on the next few lines."""
    closing = {"(": ")", "[": "]", "{": "}"}
    stack: list[str] = []
    i, last = start, min(len(text), start + 600)
    while i < last:
        character = text[i]
        if character in "'\"":
            string = _STRING.match(text, i)
            if string is None:
                return None
            i = string.end()
            continue
        if character in closing:
            stack.append(closing[character])
        elif character in ")]}":
            if not stack or stack.pop() != character:
                return None
            if not stack:
                return i + 1
        i += 1
    return None


def _literal(text: str) -> tuple[str, int] | None:
    """The literal that a text begins with, and where it ends (leading space aside)."""
    text = text.lstrip()
    if text[:1] in ("(", "[", "{"):
        end = balanced(text, 0)
        source = text[:end] if end is not None else ""
    elif match := _STRING.match(text) or _SCALAR.match(text):
        source = match.group()
    else:
        return ("set()", 5) if text.startswith("set()") else None
    try:
        value = repr(ast.literal_eval(source)) if len(source) < 1000 else ""
        return (value, len(source)) if value and not ("Ellipsis" in value and "..." in source) else None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
