"""Built-in functions whose calls have rules of their own."""

import ast

from hc_ray.solve.to_c.body import CHANGES, CONSTANT, READS, Body, Part, Term, array, call, condition, expression, terms
from hc_ray.solve.to_c.calls import SPECIAL, CallRule, as_value, builtin, dotted, plain_arguments, routine, special
from hc_ray.solve.to_c.comprehensions import consumed, first, quantified
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.expressions import items
from hc_ray.solve.to_c.tables import BUILTINS, EMPTY, TYPES


@special("len")
def _length(body: Body, node: ast.Call) -> Term:
    (one,) = _arguments(node, 1)
    (text,), effect = terms(body, [one])
    return Term(f"py_int((long long)py_length({text}))", max(effect, READS))


@special("bool")
def _truth(body: Body, node: ast.Call) -> Term:
    if not node.args:
        return Term(EMPTY["bool"], CONSTANT)
    told = condition(body, _arguments(node, 1)[0])
    return Term(f"py_bool({told.text})", told.effect)


def _arguments(node: ast.Call, *counts: int) -> list[ast.expr]:
    if len(plain_arguments(node)) not in counts:
        raise Untranslatable("such a number of arguments", node.lineno)
    return node.args


def _quantified(wanted: bool) -> CallRule:
    def answer(body: Body, node: ast.Call) -> Term:
        (one,) = _arguments(node, 1)
        if isinstance(one, ast.GeneratorExp):
            return quantified(body, one, wanted=wanted)
        return call(body, "py_any" if wanted else "py_all", [one], CHANGES)

    return answer


@special("next")
def _next(body: Body, node: ast.Call) -> Term:
    one, *rest = _arguments(node, 1, 2)
    if isinstance(one, ast.GeneratorExp):
        return first(body, one, rest[0] if rest else None)
    return routine(body, node, BUILTINS["next"], "next", [])


def _extreme(function: str) -> CallRule:
    def answer(body: Body, node: ast.Call) -> Term:
        named = {one.arg: one.value for one in node.keywords}
        several = len(node.args) > 1 or any(isinstance(one, ast.Starred) for one in node.args)
        if set(named) - {"key", "default"} or not node.args or (several and "default" in named):
            raise Untranslatable("such arguments of max() or min()", node.lineno)
        one = node.args[0]
        values: Part = (
            (lambda own: items(own, node.args, "py_list_of")) if several else (lambda own: consumed(own, one))
        )
        if len(node.args) == 1 and isinstance(one, ast.Starred):
            raise Untranslatable("max() of a starred value", node.lineno)
        given: list[Part] = [values, *named.values()]
        texts, _ = terms(body, given)
        placed = dict(zip(named, texts[1:], strict=True))
        return Term(f"{function}({texts[0]}, {placed.get('key', 'UNSET')}, {placed.get('default', 'UNSET')})", CHANGES)

    return answer


@special("zip")
def _zip(body: Body, node: ast.Call) -> Term:
    if node.keywords:
        raise Untranslatable("zip(strict=…)", node.lineno)
    if any(isinstance(one, ast.Starred) for one in node.args):
        made = body.temporary(items(body, node.args, "py_list_of").text)
        return Term(f"py_zip({made}.as.list->count, {made}.as.list->items)", CHANGES)
    texts, _ = terms(body, node.args)
    return Term(f"py_zip({array(texts)})", CHANGES)


@special("map")
def _map(body: Body, node: ast.Call) -> Term:
    function, *sources = plain_arguments(node)
    if not sources:
        raise Untranslatable("such a call of map()", node.lineno)
    known = builtin(body, function) in {*BUILTINS, *SPECIAL}
    made: Part = (lambda own: as_value(own, function, len(sources))) if known else function
    (text, *texts), _ = terms(body, [made, *sources])
    return Term(f"py_map({text}, {array(texts)})", CHANGES)


@special("isinstance")
def _instance(body: Body, node: ast.Call) -> Term:
    value, kinds = _arguments(node, 2)
    asked = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    held = body.temporary(expression(body, value).text)
    found = [builtin(body, one) for one in asked]
    if not found or any(one not in TYPES for one in found):
        raise Untranslatable("isinstance() of such a type", node.lineno)
    return Term(f"py_bool({' || '.join(f'py_truth(py_is_{one}({held}))' for one in found)})")


@special("print")
def _print(body: Body, node: ast.Call) -> Term:
    named = {one.arg: one.value for one in node.keywords}
    file = dotted(body, named["file"]) if "file" in named else "sys.stdout"
    if set(named) - {"sep", "end", "file", "flush"} or file not in ("sys.stdout", "sys.stderr"):
        raise Untranslatable("such arguments of print()", node.lineno)
    simple = len(node.args) == 1 and not named and not isinstance(node.args[0], ast.Starred)
    if simple:
        (text,), _ = terms(body, node.args)
        body.emit(f"py_print_one({text});")
        return Term("NOTHING", CONSTANT)
    parts: list[Part] = [lambda own: _printed(own, node.args)]
    parts += [named[one] for one in ("sep", "end") if one in named]
    (values, *texts), _ = terms(body, parts)
    between = f'py_separator({texts.pop(0)}, " ")' if "sep" in named else 'py_str(" ")'
    end = f'py_separator({texts.pop(0)}, "\\n")' if "end" in named else 'py_str("\\n")'
    body.emit(f"py_print({file.split('.')[1]}, {values}, {between}, {end});")
    return Term("NOTHING", CONSTANT)


def _printed(body: Body, arguments: list[ast.expr]) -> Term:
    if len(arguments) == 1 and isinstance(arguments[0], ast.Starred):
        term = consumed(body, arguments[0].value)
        return Term(f"py_to_list({term.text})", CHANGES)
    return items(body, arguments, "py_list_of")


@special("dict")
def _dict(body: Body, node: ast.Call) -> Term:
    if not node.keywords:
        return routine(body, node, BUILTINS["dict"], "dict", [])
    if node.args or any(one.arg is None for one in node.keywords):
        raise Untranslatable("such a call of dict()", node.lineno)
    made = ast.Dict([ast.Constant(one.arg) for one in node.keywords], [one.value for one in node.keywords])
    return expression(body, ast.fix_missing_locations(ast.copy_location(made, node)))


@special("pow")
def _power(body: Body, node: ast.Call) -> Term:
    given = _arguments(node, 2, 3)
    return call(body, "py_power" if len(given) == 2 else "py_power_modulo", given)


SPECIAL.update(
    {"all": _quantified(False), "any": _quantified(True), "max": _extreme("py_max"), "min": _extreme("py_min")}
)
