"""Statements that give variables, items and slices their values, and that take them away."""

import ast

from hc_ray.solve.to_c.blocks import writer
from hc_ray.solve.to_c.body import CHANGES, Body, Part, Term, expression, part, terms
from hc_ray.solve.to_c.comprehensions import consumed
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.expressions import bounds
from hc_ray.solve.to_c.tables import OPERATORS


@writer(ast.Assign)
def _assign(body: Body, node: ast.Assign) -> bool:
    target, value = node.targets[0], node.value
    if len(node.targets) > 1:
        held = Term(body.temporary(expression(body, value).text))
        for one in node.targets:
            assign(body, one, held)
    elif (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(value, (ast.Tuple, ast.List))
        and _matched(target, value)
    ):
        texts, _ = terms(body, value.elts)
        temporaries = [body.temporary(text) for text in texts]
        for one, text in zip(target.elts, temporaries, strict=True):
            assign(body, one, Term(text))
    elif isinstance(target, (ast.Tuple, ast.List)):
        assign(body, target, consumed(body, value))
    else:
        assign(body, target, value)
    return False


def _matched(target: ast.Tuple | ast.List, value: ast.Tuple | ast.List) -> bool:
    starred = any(isinstance(one, ast.Starred) for one in [*target.elts, *value.elts])
    return len(target.elts) == len(value.elts) and not starred


def assign(body: Body, target: ast.expr, value: Part) -> None:
    """Gives a value to a target."""
    if isinstance(target, ast.Name):
        text = part(body, value).text
        body.emit(f"{body.place(target.id)} = {text};")
        if target.id in body.locals:
            body.assigned.add(target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(body, target, part(body, value).text)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
        if target.slice.step is not None:
            raise Untranslatable("a slice with steps as a target", target.lineno)
        texts, _ = terms(body, [value, target.value, *bounds(target.slice)])
        body.emit(f"py_set_slice({', '.join([*texts[1:], texts[0]])});")
    elif isinstance(target, ast.Subscript):
        texts, _ = terms(body, [value, target.value, target.slice])
        body.emit(f"py_set_item({texts[1]}, {texts[2]}, {texts[0]});")
    else:
        raise Untranslatable("such a target", target.lineno)


def _unpack(body: Body, target: ast.Tuple | ast.List, text: str) -> None:
    stars = [i for i, one in enumerate(target.elts) if isinstance(one, ast.Starred)]
    parts = body.fresh("parts")
    if not stars:
        body.emit(f"const Value *{parts} = py_unpack({text}, {len(target.elts)}, 0);")
        for i, one in enumerate(target.elts):
            assign(body, one, Term(f"{parts}[{i}]"))
        return
    (at, after) = (stars[0], len(target.elts) - 1 - stars[0])
    held = body.temporary(f"py_to_list({text})")
    body.emit(f"py_unpack({held}, {len(target.elts) - 1}, 1);")
    for i, one in enumerate(target.elts):
        if isinstance(one, ast.Starred):
            end = f"py_int(-{after})" if after else "NOTHING"
            assign(body, one.value, Term(f"py_slice({held}, py_int({at}), {end}, NOTHING)"))
        else:
            assign(body, one, Term(f"py_item({held}, py_int({i if i < at else i - len(target.elts)}))"))


@writer(ast.AnnAssign)
def _annotated(body: Body, node: ast.AnnAssign) -> bool:
    if node.value is not None:
        assign(body, node.target, node.value)
    return False


@writer(ast.AugAssign)
def _augmented(body: Body, node: ast.AugAssign) -> bool:
    function = OPERATORS.get(type(node.op).__name__)
    if function is None:
        raise Untranslatable(f"the operator {type(node.op).__name__}", node.lineno)
    whole: list[str] = []
    old: Part
    if isinstance(node.target, ast.Name):
        old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
    elif isinstance(node.target, ast.Subscript) and not isinstance(node.target.slice, ast.Slice):
        texts, _ = terms(body, [node.target.value, node.target.slice])
        whole = [one if one.isidentifier() else body.temporary(one) for one in texts]
        old = Term(f"py_item({', '.join(whole)})", CHANGES)
    else:
        raise Untranslatable("such a target", node.lineno)
    if isinstance(node.op, ast.Mod) and isinstance(node.target, ast.Name):
        term = expression(body, ast.copy_location(ast.BinOp(_read(node.target), node.op, node.value), node))
        texts = [term.text]
    else:
        texts, _ = terms(body, [old, node.value])
    simple = isinstance(node.value, (ast.Constant, ast.JoinedStr))
    if isinstance(node.op, ast.Add) and not simple:
        result = f"py_add_to({', '.join(texts)})"
    elif len(texts) == 1:
        result = texts[0]
    else:
        result = f"{function}({', '.join(texts)})"
        kept = isinstance(node.op, (ast.Mult, ast.Sub, ast.BitOr, ast.BitAnd, ast.BitXor))
        if kept and not (simple and not isinstance(node.op, ast.Mult)):
            result = f"py_in_place({texts[0]}, {result})"
    if isinstance(node.target, ast.Name):
        body.emit(f"{body.place(node.target.id)} = {result};")
    else:
        body.emit(f"py_set_item({whole[0]}, {whole[1]}, {result});")
    return False


def _read(node: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(node.id, ast.Load()), node)


@writer(ast.Delete)
def _delete(body: Body, node: ast.Delete) -> bool:
    for target in node.targets:
        if isinstance(target, ast.Name):
            body.emit(f"{body.place(target.id)} = UNSET;")
            body.assigned.discard(target.id)
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice) and target.slice.step is None:
            texts, _ = terms(body, [target.value, *bounds(target.slice)])
            body.emit(f"py_set_slice({', '.join(texts)}, py_list());")
        elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
            texts, _ = terms(body, [target.value, target.slice])
            body.emit(f"py_delete_item({', '.join(texts)});")
        else:
            raise Untranslatable("del", node.lineno)
    return False
