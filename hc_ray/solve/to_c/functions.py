"""Functions in functions: each becomes a C function that takes its arguments as an array, and the variables that it
shares with the function around as cells."""

import ast
import re

from hc_ray.solve.to_c.blocks import block
from hc_ray.solve.to_c.body import CHANGES, READS, Body, Term, array, expression, rule, terms
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.names import Function, bound, defaults, fixed, parameters

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


@rule(ast.Lambda)
def inner(body: Body, node: Function) -> Term:
    """A function as a value."""
    name = node.name if isinstance(node, ast.FunctionDef) else "lambda"
    made = Body(body.unit, node, body.unit.fresh(f"{body.name}_{name}"), body)
    taken = parameters(node)
    if len(taken) > 16 or node.args.kwonlyargs:
        raise Untranslatable("such parameters", node.lineno)
    if isinstance(node, ast.FunctionDef):
        if node.decorator_list:
            raise Untranslatable("a decorator", node.lineno)
        block(made, node.body)
    else:
        text = expression(made, node.body).text
        made.emit(f"return {text};")
    body.unit.inner.append(written(made, "const Value *given, Value **cells"))
    cells = [body.cell(one) for one in made.captures]
    shared = f"(Value *[]){{{', '.join(cells)}}}" if cells else "NULL"
    least = len(taken) - len(defaults(node))
    return Term(f"py_func({made.name}, {least}, {len(taken)}, {shared}, {len(cells)})", READS)


def inner_call(body: Body, node: ast.Call) -> Term:
    """A call of a value."""
    if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
        raise Untranslatable("starred or named arguments", node.lineno)
    (function, *given), _ = terms(body, [node.func, *node.args])
    return Term(f"py_call({function}, {array(given)})", CHANGES)


def written(body: Body, taken: str) -> str:
    """The text of a C function whose statements are in a body."""
    head = _declared(body, arrayed=taken.startswith("const"))
    lines = [*head, *body.lines]
    if not body.lines or not body.lines[-1].startswith("    return "):
        lines.append("    return NOTHING;")
    text = "\n".join(lines)
    if taken.startswith("const"):
        unused = [one for one in ("given", "cells") if f"{one}[" not in text]
        text = "".join(f"    (void){one};\n" for one in unused) + text
    return f"static Value {body.name}({taken})\n{{\n{text}\n}}\n"


def _declared(body: Body, *, arrayed: bool) -> list[str]:
    """The variables of a function. What an error may jump over is volatile."""
    own = "volatile " if body.guarded else ""
    otherwise = defaults(body.function)
    taken = [one.arg for one in parameters(body.function)]
    lines = []
    for name in bound(body.function):
        variable, value = body.locals[name], "UNSET"
        if name in taken:
            value = f"given[{taken.index(name)}]" if arrayed else f"given_{variable}"
            if arrayed and name in otherwise:
                default = expression(body, fixed(otherwise[name])).text
                value = f"{value}.kind == K_UNSET ? {default} : {value}"
        if name in body.cells:
            lines.append(f"    Value *{own}{variable} = py_cell({value});")
        elif name not in taken or arrayed or body.guarded:
            lines.append(f"    {own}Value {variable} = {value};")
        if not any(_reads(line, variable) for line in body.lines):
            lines.append(f"    (void){variable};")
    return lines


def _reads(line: str, variable: str) -> bool:
    """Whether a line does more with a variable than give it a value."""
    return re.search(rf"\b{variable}\b", _TEXT.sub("", line).strip().removeprefix(f"{variable} = ")) is not None


def signature(body: Body) -> str:
    """The parameters of a function of the program in C."""
    taken = [one.arg for one in parameters(body.function)]
    renamed = [f"given_{body.locals[one]}" if one in body.cells or body.guarded else body.locals[one] for one in taken]
    return ", ".join(f"Value {one}" for one in renamed) or "void"
