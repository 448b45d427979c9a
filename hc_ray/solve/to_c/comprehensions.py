"""Comprehensions: loops that are written before the expression they stand in."""

import ast
from collections.abc import Callable

from hc_ray.solve.to_c.body import CHANGES, READS, Body, Term, condition, expression, rule, terms
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.names import loaded


def loops(
    body: Body,
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
    leaf: Callable[[], None],
    going: str = "",
) -> None:
    """Writes the loops of a comprehension; ``leaf`` writes what happens for each element. ``going``: what must hold
    for them to go on."""
    outer = body.depth
    reads = loaded([node])
    for i, generator in enumerate(node.generators):
        if generator.is_async:
            raise Untranslatable("async", node.lineno)
        source = expression(body, generator.iter).text
        if i == 0:
            body.frames.append({})
        body.frames[-1].update(_declared(body, generator.target, reads))
        variable = body.fresh("it")
        plain = isinstance(generator.target, ast.Name) and generator.target.id not in body.cells
        item = (
            body.place(generator.target.id) if plain and isinstance(generator.target, ast.Name) else body.fresh("tmp")
        )
        if not plain:
            body.emit(f"Value {item} = UNSET;")
        test = f"{going} && " if going else ""
        body.emit(f"for (Iter *{variable} = py_iter({source}); {test}py_next({variable}, &{item});) {{")
        body.depth += 1
        if not plain:
            spread(body, generator.target, item)
        for test_node in generator.ifs:
            body.emit(f"if (!({condition(body, test_node).text}))")
            body.emit("    continue;")
    leaf()
    while body.depth > outer:
        body.depth -= 1
        body.emit("}")
    body.frames.pop()


def _declared(body: Body, target: ast.expr, reads: set[str]) -> dict[str, str]:
    found = {}
    for one in ast.walk(target):
        if isinstance(one, ast.Name):
            name = found[one.id] = body.variable(one.id)
            body.emit(f"Value *{name} = py_cell(UNSET);" if one.id in body.cells else f"Value {name} = UNSET;")
            if one.id not in reads:
                body.emit(f"(void){name};")
    return found


def spread(body: Body, target: ast.expr, text: str) -> None:
    """Gives a value to the names of a target."""
    if isinstance(target, ast.Name):
        body.emit(f"{body.place(target.id)} = {text};")
    elif isinstance(target, (ast.Tuple, ast.List)) and not any(isinstance(one, ast.Starred) for one in target.elts):
        parts = body.fresh("parts")
        body.emit(f"const Value *{parts} = py_unpack({text}, {len(target.elts)}, 0);")
        for i, one in enumerate(target.elts):
            spread(body, one, f"{parts}[{i}]")
    else:
        raise Untranslatable("such a target", target.lineno)


def to_list(body: Body, node: ast.ListComp | ast.GeneratorExp) -> Term:
    """All elements at once."""
    made = body.temporary("py_list()")
    loops(body, node, lambda: body.emit(f"py_append({made}, {expression(body, node.elt).text});"))
    return Term(made)


@rule(ast.ListComp)
def list_comprehension(body: Body, node: ast.ListComp) -> Term:
    return to_list(body, node)


@rule(ast.SetComp)
def set_comprehension(body: Body, node: ast.SetComp) -> Term:
    made = body.temporary("py_set()")
    loops(body, node, lambda: body.emit(f"py_add_item({made}, {expression(body, node.elt).text});"))
    return Term(made)


@rule(ast.DictComp)
def dict_comprehension(body: Body, node: ast.DictComp) -> Term:
    made = body.temporary("py_dict()")

    def put() -> None:
        texts, _ = terms(body, [node.key, node.value])
        body.emit(f"py_put_item({made}, {texts[0]}, {texts[1]});")

    loops(body, node, put)
    return Term(made)


def consumed(body: Body, node: ast.expr) -> Term:
    """An argument that is gone through to its end at once."""
    return to_list(body, node) if isinstance(node, ast.GeneratorExp) else expression(body, node)


def quantified(body: Body, node: ast.GeneratorExp, *, wanted: bool) -> Term:
    """``any`` (``wanted``) or ``all`` of a generator: stops at the first element that decides."""
    found = body.temporary("0", "int")

    def leaf() -> None:
        told = condition(body, node.elt).text
        body.emit(f"if ({told})" if wanted else f"if (!({told}))")
        body.emit(f"    {found} = 1;")

    loops(body, node, leaf, f"!{found}")
    return Term(f"py_bool({found})" if wanted else f"py_bool(!{found})", READS)


def first(body: Body, node: ast.GeneratorExp, otherwise: ast.expr | None) -> Term:
    """``next`` of a generator."""
    default = body.temporary(expression(body, otherwise).text) if otherwise is not None else "UNSET"
    found = body.temporary("UNSET")
    loops(body, node, lambda: body.emit(f"{found} = {expression(body, node.elt).text};"), f"{found}.kind == K_UNSET")
    return Term(f"py_next_found({found}, {default})", CHANGES)
