"""Statements: loops, branches, returns, definitions."""

import ast
from collections.abc import Callable

from hc_ray.solve.to_c.assignments import assign
from hc_ray.solve.to_c.blocks import block, writer
from hc_ray.solve.to_c.body import CHANGES, Body, Term, condition, expression
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.functions import inner


@writer(ast.Expr)
def _expression(body: Body, node: ast.Expr) -> bool:
    if isinstance(node.value, ast.Constant):
        return False
    if isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Await):
        raise Untranslatable(type(node.value).__name__.lower(), node.lineno)
    term = expression(body, node.value)
    if term.text != "NOTHING":
        called = term.effect == CHANGES and "(" in term.text[1:]
        body.emit(f"{'' if called and term.text[0] != '(' else '(void)'}{term.text};")
    return False


@writer(ast.Import, ast.ImportFrom, ast.Nonlocal, ast.Pass)
def _pass(body: Body, node: ast.stmt) -> bool:
    return False


@writer(ast.Return)
def _return(body: Body, node: ast.Return) -> bool:
    value = node.value
    if (
        isinstance(value, ast.GeneratorExp)
        and body.parent is None
        and body.unit.wanted[0] == getattr(body.function, "name", "")
    ):
        value.returned = True  # type: ignore[attr-defined]
    text = expression(body, value).text if value is not None else "NOTHING"
    if body.handlers:
        text = body.temporary(text)
        _leave(body, 0)
    body.emit(f"return {text};")
    return True


def _leave(body: Body, depth: int) -> None:
    """Ends the try statements that are left."""
    if len(body.handlers) > depth:
        body.emit(f"py_handlers = {body.handlers[depth]}.outer;")


@writer(ast.Break)
def _break(body: Body, node: ast.Break) -> bool:
    depth, left = body.loops[-1]
    _leave(body, depth)
    if left:
        body.emit(f"{left} = 1;")
    body.emit("break;")
    return True


@writer(ast.Continue)
def _continue(body: Body, node: ast.Continue) -> bool:
    _leave(body, body.loops[-1][0])
    body.emit("continue;")
    return True


@writer(ast.If)
def _if(body: Body, node: ast.If) -> bool:
    told = condition(body, node.test)
    body.emit(f"if ({told.text}) {{")
    before = set(body.assigned)
    with body.indented():
        ended = block(body, node.body)
    after, body.assigned = body.assigned, set(before)
    other = False
    if node.orelse:
        body.emit("} else {")
        with body.indented():
            other = block(body, node.orelse)
    body.emit("}")
    body.assigned = body.assigned if ended else after if other else after & body.assigned
    return ended and other


def _loop(body: Body, node: ast.For | ast.While, head: Callable[[], None]) -> None:
    """Writes a loop whose head is written by ``head``; behind it nothing more is surely assigned than before."""
    left = ""
    if node.orelse:
        left = body.fresh("broken")
        body.emit(f"{'volatile ' if body.guarded else ''}int {left} = 0;")
        body.emit(f"(void){left};")
    before = set(body.assigned)
    body.loops.append((len(body.handlers), left))
    head()
    with body.indented():
        block(body, node.body)
    body.loops.pop()
    body.emit("}")
    body.assigned = set(before)
    if node.orelse:
        body.emit(f"if (!{left}) {{")
        with body.indented():
            block(body, node.orelse)
        body.emit("}")
        body.assigned = before


@writer(ast.While)
def _while(body: Body, node: ast.While) -> bool:
    def head() -> None:
        with body.aside() as lines, body.indented():
            told = condition(body, node.test)
        if not lines:
            body.emit(f"while ({'1' if told.text == 'py_truth(py_bool(1))' else told.text}) {{")
            return
        body.emit("while (1) {")
        body.lines.extend(lines)
        body.emit(f"    if (!({told.text}))")
        body.emit("        break;")

    _loop(body, node, head)
    return False


@writer(ast.For)
def _for(body: Body, node: ast.For) -> bool:
    source = expression(body, node.iter).text
    variable = body.fresh("it")
    own = "volatile " if body.guarded else ""
    target = node.target
    direct = (
        isinstance(target, ast.Name) and target.id in body.locals and not body.guarded and target.id not in body.cells
    )

    def head() -> None:
        item = body.locals[target.id] if direct and isinstance(target, ast.Name) else body.fresh("tmp")
        if not direct:
            body.emit(f"Value {item} = UNSET;")
        body.emit(f"for (Iter *{own}{variable} = py_iter({source}); py_next({variable}, &{item});) {{")
        if direct and isinstance(target, ast.Name):
            body.assigned.add(target.id)
        else:
            with body.indented():
                assign(body, target, Term(item))

    _loop(body, node, head)
    return False


@writer(ast.FunctionDef)
def _define(body: Body, node: ast.FunctionDef) -> bool:
    text = inner(body, node).text
    body.emit(f"{body.place(node.name)} = {text};")
    if node.name in body.locals:
        body.assigned.add(node.name)
    return False
