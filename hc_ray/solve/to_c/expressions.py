"""Expressions: constants, names, operators, comparisons, displays, subscripts, functions as values."""

import ast
from typing import Any

from hc_ray.solve.to_c.body import (
    CHANGES,
    CONSTANT,
    READS,
    Body,
    Term,
    array,
    call,
    condition,
    condition_rule,
    expression,
    quoted,
    rule,
    terms,
)
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.tables import OPERATORS

NONE = Term("NOTHING", CONSTANT)
_SINGLE = (ast.Constant, ast.Name)


@rule(ast.Constant)
def constant(body: Body, node: ast.Constant) -> Term:
    value = node.value
    if value is None:
        return NONE
    if isinstance(value, bool):
        return Term(f"py_bool({int(value)})", CONSTANT)
    if isinstance(value, int):
        if value >= 2**63:
            raise Untranslatable("an integer of more than 64 bits", node.lineno)
        return Term(f"py_int({value}{'LL' if value >= 2**31 else ''})", CONSTANT)
    if isinstance(value, float):
        return Term("py_float(py_infinity())" if value == float("inf") else f"py_float({value!r})", CONSTANT)
    if isinstance(value, str):
        return Term(quoted(value, node.lineno), CONSTANT)
    raise Untranslatable(f"a constant of the type {type(value).__name__}", node.lineno)


def variable(body: Body, node: ast.Name) -> Term:
    """The value of a name that is a variable."""
    place = body.place(node.id)
    return Term(place if body.surely(node.id) else f'py_bound({place}, "{node.id}")')


def operation(body: Body, node: ast.BinOp) -> Term:
    function = OPERATORS.get(type(node.op).__name__)
    if function is None:
        raise Untranslatable(f"the operator {type(node.op).__name__}", node.lineno)
    return call(body, function, [node.left, node.right])


@rule(ast.UnaryOp)
def signed(body: Body, node: ast.UnaryOp) -> Term:
    if isinstance(node.op, ast.Not):
        told = condition(body, node)
        return Term(f"py_bool({told.text})", told.effect)
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value < 2**63 and value == value:
            plain = constant(body, node.operand).text
            kind, _, number = plain.partition("(")
            if value != float("inf"):
                return Term(f"{kind}(-{number}", CONSTANT)
    function = {"USub": "py_negative", "UAdd": "py_positive", "Invert": "py_invert"}[type(node.op).__name__]
    return call(body, function, [node.operand])


@rule(ast.BoolOp)
def chosen(body: Body, node: ast.BoolOp) -> Term:
    """``and`` and ``or`` give one of their operands."""
    result = body.temporary(expression(body, node.values[0]).text)
    test = f"py_truth({result})" if isinstance(node.op, ast.And) else f"!py_truth({result})"
    for value in node.values[1:]:
        body.emit(f"if ({test}) {{")
        with body.indented():
            body.emit(f"{result} = {expression(body, value).text};")
        body.emit("}")
    return Term(result)


@condition_rule(ast.BoolOp)
def both(body: Body, node: ast.BoolOp) -> Term:
    worked = []
    for value in node.values:
        with body.aside() as lines:
            told = condition(body, value)
        worked.append((lines, told))
    body.lines.extend(worked[0][0])
    if not any(lines for lines, _ in worked[1:]):
        sign = " && " if isinstance(node.op, ast.And) else " || "
        parts = [
            f"({told.text})"
            if isinstance(value, (ast.BoolOp, ast.Compare)) and (" && " in told.text or " || " in told.text)
            else told.text
            for value, (_, told) in zip(node.values, worked, strict=True)
        ]
        return Term(sign.join(parts), max(told.effect for _, told in worked))
    result = body.temporary(worked[0][1].text, "int")
    for lines, told in worked[1:]:
        body.emit(f"if ({result if isinstance(node.op, ast.And) else '!' + result}) {{")
        body.lines.extend("    " + line for line in lines)
        with body.indented():
            body.emit(f"{result} = {told.text};")
        body.emit("}")
    return Term(result)


@condition_rule(ast.UnaryOp)
def negated(body: Body, node: ast.UnaryOp) -> Term:
    if not isinstance(node.op, ast.Not):
        term = signed(body, node)
        return Term(f"py_truth({term.text})", term.effect)
    told = condition(body, node.operand)
    bare = told.text.startswith("!") or " " in told.text.split("(")[0] or " && " in told.text or " || " in told.text
    return Term(f"!({told.text})" if bare or " ? " in told.text else f"!{told.text}", told.effect)


@condition_rule(ast.Compare)
def compared(body: Body, node: ast.Compare) -> Term:
    """A chain works each operand out at most once, and none after the first pair that fails."""
    if len(node.ops) == 1:
        return _compared(body, node.ops[0], node.left, node.comparators[0], node.lineno)
    if all(isinstance(one, _SINGLE) for one in node.comparators[:-1]):
        lefts = [node.left, *node.comparators[:-1]]
        pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(lefts, node.ops, node.comparators, strict=True)]
        for one in pairs:
            ast.copy_location(one, node)
        return both(body, ast.copy_location(ast.BoolOp(ast.And(), list(pairs)), node))
    texts, _ = terms(body, [node.left, node.comparators[0]])
    left = body.temporary(texts[1])
    result = body.temporary(_compared(body, node.ops[0], Term(texts[0]), Term(left), node.lineno).text, "int")
    for op, right in zip(node.ops[1:], node.comparators[1:], strict=True):
        body.emit(f"if ({result}) {{")
        body.depth += 1
        held = body.temporary(expression(body, right).text)
        body.emit(f"{result} = {_compared(body, op, Term(left), Term(held), node.lineno).text};")
        left = held
    for _ in node.ops[1:]:
        body.depth -= 1
        body.emit("}")
    return Term(result)


def _compared(body: Body, op: ast.cmpop, left: Any, right: Any, line: int) -> Term:
    if isinstance(op, (ast.Is, ast.IsNot)):
        held = [
            isinstance(one, ast.Constant) and (one.value is None or isinstance(one.value, bool))
            for one in (left, right)
        ]
        if not any(held):
            raise Untranslatable("is", line)
    (a, b), effect = terms(body, [left, right])
    match op:
        case ast.Eq() | ast.NotEq():
            if isinstance(op, ast.NotEq) and body.unit.numbers:
                return Term(f"py_unequal({a}, {b})", effect)
            return Term(f"{'!' if isinstance(op, ast.NotEq) else ''}py_equal({a}, {b})", effect)
        case ast.Lt():
            return Term(f"py_less({a}, {b})", effect)
        case ast.LtE():
            return Term(f"py_less_equal({a}, {b})", effect)
        case ast.Gt():
            return Term(f"py_less({b}, {a})", effect)
        case ast.GtE():
            return Term(f"py_less_equal({b}, {a})", effect)
        case ast.In() | ast.NotIn():
            changes = max(effect, READS if isinstance(right, (ast.Constant, ast.List, ast.Tuple, ast.Set)) else CHANGES)
            return Term(f"{'!' if isinstance(op, ast.NotIn) else ''}py_contains({b}, {a})", changes)
        case _:
            return Term(f"{'!' if isinstance(op, ast.IsNot) else ''}py_same({a}, {b})", effect)


@rule(ast.IfExp)
def either(body: Body, node: ast.IfExp) -> Term:
    told = condition(body, node.test)
    branches = []
    for one in (node.body, node.orelse):
        with body.aside() as lines, body.indented():
            term = expression(body, one)
        branches.append((lines, term))
    (first, a), (second, b) = branches
    if not first and not second:
        return Term(f"({told.text} ? {a.text} : {b.text})", max(told.effect, a.effect, b.effect))
    test = body.temporary(told.text, "int")
    result = body.temporary("UNSET")
    for line, lines, term in ((f"if ({test}) {{", first, a), ("} else {", second, b)):
        body.emit(line)
        body.lines.extend(lines)
        with body.indented():
            body.emit(f"{result} = {term.text};")
    body.emit("}")
    return Term(result)


@rule(ast.List, ast.Tuple)
def listed(body: Body, node: ast.List | ast.Tuple) -> Term:
    """A list or tuple."""
    return items(body, node.elts, "py_list_of" if isinstance(node, ast.List) else "py_tuple_of")


@rule(ast.Set)
def gathered(body: Body, node: ast.Set) -> Term:
    # The order shows how CPython makes a set of constants.
    constant = len(node.elts) > 2 and all(_folded(one) for one in node.elts)
    return items(body, node.elts, "py_set_of_constants" if constant else "py_set_of")


def _folded(node: ast.expr) -> bool:
    """Whether CPython works an expression out when it compiles."""
    if isinstance(node, ast.Tuple):
        return all(_folded(one) for one in node.elts)
    if isinstance(node, ast.BinOp):
        return _folded(node.left) and _folded(node.right)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and _folded(node.operand))


def items(body: Body, elements: list[ast.expr], function: str) -> Term:
    """What ``function`` makes of elements, some of which may be starred."""
    if not any(isinstance(one, ast.Starred) for one in elements):
        texts, effect = terms(body, elements)
        return Term(f"{function}({array(texts)})", max(effect, READS))
    made = body.temporary("py_list()")
    for one in elements:
        if isinstance(one, ast.Starred):
            body.emit(f"py_extend({made}, {expression(body, one.value).text});")
        else:
            body.emit(f"py_append({made}, {expression(body, one).text});")
    turned = {"py_list_of": "{}", "py_tuple_of": "py_to_tuple({})", "py_set_of": "py_to_set({})"}
    return Term(turned[function].format(made), READS)


@rule(ast.Dict)
def paired(body: Body, node: ast.Dict) -> Term:
    if all(key is not None for key in node.keys):
        flat = [
            one for key, value in zip(node.keys, node.values, strict=True) for one in (key, value) if one is not None
        ]
        texts, effect = terms(body, flat)
        return Term(f"py_dict_of({array(texts)})", max(effect, READS))
    made = body.temporary("py_dict()")
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            body.emit(f"py_fill_dict({made}, {expression(body, value).text});")
        else:
            texts, _ = terms(body, [key, value])
            body.emit(f"py_put_item({made}, {texts[0]}, {texts[1]});")
    return Term(made)


@rule(ast.Subscript)
def item(body: Body, node: ast.Subscript) -> Term:
    if not isinstance(node.slice, ast.Slice):
        return call(body, "py_item", [node.value, node.slice])
    return call(body, "py_slice", [node.value, *bounds(node.slice), node.slice.step or NONE])


def bounds(node: ast.Slice) -> list[ast.expr | Term]:
    return [node.lower or NONE, node.upper or NONE]


@rule(ast.NamedExpr)
def named(body: Body, node: ast.NamedExpr) -> Term:
    if any(node.target.id in frame for frame in body.frames) or body.frames:
        raise Untranslatable(":= in a comprehension", node.lineno)
    text = expression(body, node.value).text
    place = body.place(node.target.id)
    body.emit(f"{place} = {text};")
    return Term(place)
