"""Texts that are put together: f-strings, ``%`` and ``str.format``, as far as the format is written in the program."""

import ast
import re
import string
from collections.abc import Sequence

from hc_ray.solve.to_c import expressions
from hc_ray.solve.to_c.body import CONSTANT, READS, Body, Part, Term, array, expression, part, quoted, rule, terms
from hc_ray.solve.to_c.errors import Untranslatable

_PLACE = re.compile(r"%(?:(?P<flags>[-+ 0]*)(?P<width>\d*)(?:\.(?P<precision>\d+))?(?P<letter>[sdifeEgGxXor])|%)|%")


@rule(ast.JoinedStr)
def joined(body: Body, node: ast.JoinedStr) -> Term:
    """An f-string."""
    return concatenated(body, [_piece(one) for one in node.values])


def _piece(node: ast.expr) -> Part:
    if not isinstance(node, ast.FormattedValue):
        return node

    def piece(body: Body) -> Term:
        return formatted(body, node.value, node.conversion, node.format_spec)

    return piece


def formatted(body: Body, value: Part, conversion: int, spec: ast.expr | None) -> Term:
    """One value of a text. ``conversion``: 114 for ``!r``, 115 for ``!s``, -1 for none."""
    if conversion not in (-1, 114, 115):
        raise Untranslatable("!a")
    (text, *rest), effect = terms(body, [value, *([spec] if spec else [])])
    if conversion != -1:
        text = f"py_{'repr' if conversion == 114 else 'to_str'}({text})"
    if rest:
        return Term(f"py_format({text}, {rest[0]})", effect)
    return Term(text if conversion != -1 else f"py_to_str({text})", max(effect, READS))


def concatenated(body: Body, parts: Sequence[Part]) -> Term:
    """Texts one after the other."""
    if not parts:
        return Term('py_str("")', CONSTANT)
    if len(parts) == 1:
        return part(body, parts[0])
    texts, effect = terms(body, parts)
    return Term(f"py_concat({array(texts)})", max(effect, READS))


@rule(ast.BinOp)
def operation(body: Body, node: ast.BinOp) -> Term:
    """An operator; ``%`` of a text is a format."""
    if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
        return percent(body, node.left.value, node.right, node.lineno)
    return expressions.operation(body, node)


def percent(body: Body, text: str, values: ast.expr, line: int) -> Term:
    places = [match for match in _PLACE.finditer(text) if match[0] != "%%"]
    if any(match["letter"] is None for match in places) or not places:
        raise Untranslatable("such a % format", line)
    if isinstance(values, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in values.elts):
        if len(values.elts) != len(places):
            raise Untranslatable("a % format with other values", line)
        texts, _ = terms(body, values.elts)
    else:
        held = body.temporary(expression(body, values).text)
        texts = [f"py_percent_value({held}, {i}, {len(places)})" for i in range(len(places))]
    parts: list[Part] = []
    at = 0
    for match in _PLACE.finditer(text):
        before = text[at : match.start()] + ("%" if match[0] == "%%" else "")
        at = match.end()
        if before:
            parts.append(Term(quoted(before, line), CONSTANT))
        if match[0] != "%%":
            parts.append(_percent_place(match, texts.pop(0), line))
    if text[at:]:
        parts.append(Term(quoted(text[at:], line), CONSTANT))
    return concatenated(body, parts)


def _percent_place(match: re.Match[str], value: str, line: int) -> Term:
    flags, letter = match["flags"], match["letter"]
    precision = f".{match['precision']}" if match["precision"] else ""
    if letter in "sr":
        spec = f"{'<' if '-' in flags else '>'}{match['width']}{precision}" if match["width"] or precision else ""
        kind = letter
    else:
        kind = "d" if letter in "di" else letter if letter in "xXo" else "f"
        if precision and kind != "f":
            raise Untranslatable("such a % format", line)
        sign = "+" if "+" in flags else " " if " " in flags else ""
        zero = "0" if "0" in flags and "-" not in flags and match["width"] else ""
        spec = f"{'<' if '-' in flags else ''}{sign}{zero}{match['width']}{precision}{'d' if letter == 'i' else letter}"
    return Term(f"py_percent({value}, {quoted(spec)}, '{kind}')")


def format_call(body: Body, text: str, node: ast.Call) -> Term:
    """``"…".format(…)``."""
    named = {one.arg: one.value for one in node.keywords if one.arg}
    if len(named) != len(node.keywords) or any(isinstance(one, ast.Starred) for one in node.args):
        raise Untranslatable("starred arguments of format", node.lineno)
    values, _ = terms(body, [*node.args, *named.values()])
    known = {
        **{str(i): one for i, one in enumerate(values[: len(node.args)])},
        **dict(zip(named, values[len(node.args) :], strict=True)),
    }
    parts: list[Part] = []
    counted = 0
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise Untranslatable("such a format", node.lineno) from error
    for before, field, spec, conversion in fields:
        if before:
            parts.append(Term(quoted(before, node.lineno), CONSTANT))
        if field is None:
            continue
        if field == "":
            field, counted = str(counted), counted + 1
        if field not in known or "{" in (spec or "") or conversion not in (None, "r", "s"):
            raise Untranslatable("such a format", node.lineno)
        held = Term(known[field])
        spec_node = ast.Constant(spec, lineno=node.lineno) if spec else None
        parts.append(formatted(body, held, -1 if conversion is None else ord(conversion), spec_node))
    if counted and any(field and field.isdigit() for _, field, _, _ in fields):
        raise Untranslatable("such a format", node.lineno)
    if not all(isinstance(one, Term) for one in parts):
        raise Untranslatable("such a format", node.lineno)
    return concatenated(body, parts)
