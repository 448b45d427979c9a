"""Calls: of the program's functions, of values, of built-in functions, modules and methods."""

import ast
from collections.abc import Callable, Sequence

from hc_ray.solve.to_c.body import (
    CHANGES,
    CONSTANT,
    READS,
    Body,
    Part,
    Term,
    call,
    expression,
    quoted,
    rule,
    terms,
)
from hc_ray.solve.to_c.comprehensions import consumed, to_list
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.expressions import variable
from hc_ray.solve.to_c.functions import inner, inner_call
from hc_ray.solve.to_c.names import defaults, fixed, parameters
from hc_ray.solve.to_c.tables import (
    BUILTINS,
    EMPTY,
    KEYWORDS,
    METHODS,
    MODULES,
    NUMBERS,
    ONLY_NAMED,
    TEXTS,
    TYPES,
    Routine,
)
from hc_ray.solve.to_c.texts import format_call

UNSET = Term("UNSET", CONSTANT)
CallRule = Callable[[Body, ast.Call], Term]
SPECIAL: dict[str, CallRule] = {}
"""Built-in functions with rules of their own."""


def special(name: str) -> Callable[[CallRule], CallRule]:
    """Registers the rule of a built-in function."""

    def register(function: CallRule) -> CallRule:
        SPECIAL[name] = function
        return function

    return register


def dotted(body: Body, node: ast.expr) -> str:
    """What of a module a name stands for, as ``math.sqrt``; empty for anything else."""
    if isinstance(node, ast.Attribute):
        outer = dotted(body, node.value)
        return f"{outer}.{node.attr}" if outer else ""
    known = isinstance(node, ast.Name) and not body.is_variable(node.id) and node.id not in body.unit.functions
    return body.unit.imports.get(node.id, "") if known and isinstance(node, ast.Name) else ""


def builtin(body: Body, node: ast.expr) -> str:
    """The built-in that a name stands for, if it does; ``is_variable`` and functions of the program come first."""
    if not isinstance(node, ast.Name) or body.is_variable(node.id) or node.id in body.unit.functions:
        return ""
    return "" if node.id in body.unit.imports else node.id


@rule(ast.Name)
def name(body: Body, node: ast.Name) -> Term:
    if body.is_variable(node.id):
        return variable(body, node)
    if node.id in body.unit.functions:
        count = len(parameters(body.unit.functions[node.id]))
        return as_value(body, node, count)
    if dotted(body, node):
        return module_value(body, node)
    if node.id in BUILTINS or node.id in ("len", "bool", "max", "min", "sum", "any", "all", "print"):
        return as_value(body, node, 1)
    raise Untranslatable(f"the name {node.id!r}", node.lineno)


@rule(ast.Attribute)
def attribute(body: Body, node: ast.Attribute) -> Term:
    """A value of a module, or a method that is not called yet."""
    if dotted(body, node):
        return module_value(body, node)
    if builtin(body, node.value) in TYPES and node.attr in METHODS:
        return as_value(body, node, 1)
    if node.attr not in METHODS:
        raise Untranslatable(f"the attribute {node.attr!r}", node.lineno)
    # x.count is what a function of one argument does with the x of now.
    owner, given = ast.Name("_owner", ast.Load()), ast.Name("_given", ast.Load())
    method = ast.Lambda(_one("_given"), ast.Call(ast.Attribute(owner, node.attr, ast.Load()), [given], []))
    made = ast.Call(ast.Lambda(_one("_owner"), method), [node.value], [])
    return expression(body, ast.fix_missing_locations(ast.copy_location(made, node)))


def _one(*names: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(one) for one in names], None, [], [], None, [])


def as_value(body: Body, node: ast.expr, count: int) -> Term:
    """A function that has a name, as a value that is called with so many arguments."""
    names = [f"_{i}" for i in range(1, count + 1)]
    made = ast.Lambda(_one(*names), ast.Call(node, [ast.Name(one, ast.Load()) for one in names], []))
    return inner(body, ast.fix_missing_locations(ast.copy_location(made, node)))


def module_value(body: Body, node: ast.expr) -> Term:
    path = dotted(body, node)
    if path in TEXTS:
        return Term(quoted(TEXTS[path]), CONSTANT)
    if path in NUMBERS:
        return expression(body, ast.copy_location(ast.Constant(NUMBERS[path]), node))
    if path == "math.nan":
        return Term('py_to_float(py_str("nan"), UNSET)'.replace(", UNSET", ""), CONSTANT)
    if path == "sys.argv":
        return Term("py_argv", READS)
    if path == "sys.stdin":
        return Term("py_input_lines()", CHANGES)
    if path in MODULES:
        return as_value(body, node, 1)
    raise Untranslatable(path, node.lineno)


@rule(ast.Call)
def called(body: Body, node: ast.Call) -> Term:
    function = node.func
    if isinstance(function, ast.Name) and not body.is_variable(function.id) and function.id in body.unit.functions:
        return own_call(body, node, body.unit.functions[function.id])
    path = dotted(body, function)
    if path:
        return module_call(body, node, path)
    known = builtin(body, function)
    if known in SPECIAL:
        return SPECIAL[known](body, node)
    if known in EMPTY and not node.args and not node.keywords:
        return Term(EMPTY[known], READS)
    if known in BUILTINS:
        return routine(body, node, BUILTINS[known], known, [])
    if known:
        raise Untranslatable(f"{known}()", node.lineno)
    if isinstance(function, ast.Attribute):
        return method_call(body, node, function)
    return inner_call(body, node)


def plain_arguments(node: ast.Call) -> list[ast.expr]:
    """Arguments that are neither starred nor named."""
    if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
        raise Untranslatable("starred or named arguments", node.lineno)
    return node.args


def own_call(body: Body, node: ast.Call, function: ast.FunctionDef) -> Term:
    """A call of a function of the program."""
    names = [one.arg for one in parameters(function)]
    placed = len(names) - len(function.args.kwonlyargs)
    positional = {one.arg for one in function.args.posonlyargs}
    given: dict[str, Part] = dict(zip(names[:placed], node.args, strict=False))
    wrong = len(node.args) > placed or any(isinstance(one, ast.Starred) for one in node.args)
    for keyword in node.keywords:
        if keyword.arg not in names or keyword.arg in given or keyword.arg in positional:
            wrong = True
        else:
            given[keyword.arg] = keyword.value
    otherwise = defaults(function)
    if wrong or any(one not in given and one not in otherwise for one in names):
        raise Untranslatable(f"such a call of {function.name}()", node.lineno)
    for one in names:
        given.setdefault(one, fixed(otherwise[one]) if one in otherwise else UNSET)
    texts, _ = terms(body, list(given.values()))
    order = dict(zip(given, texts, strict=True))
    return Term(f"{body.unit.want(function.name)}({', '.join(order[one] for one in names)})", CHANGES)


def routine(body: Body, node: ast.Call, known: Routine, name: str, before: Sequence[Part]) -> Term:
    """A call of a function of the runtime. ``before``: what it is a method of."""
    if any(isinstance(one, ast.Starred) for one in node.args) or len(node.args) > ONLY_NAMED.get(name, 9):
        raise Untranslatable(f"such arguments of {name}()", node.lineno)
    given: dict[str, ast.expr] = dict(zip(known.parameters, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg not in KEYWORDS.get(name, ()) or keyword.arg in given:
            raise Untranslatable(f"{name}({keyword.arg}=…)", node.lineno)
        given[keyword.arg or ""] = keyword.value
    if len(node.args) > len(known.parameters) or any(one not in given for one in known.parameters[: known.required]):
        raise Untranslatable(f"such a call of {name}()", node.lineno)
    parts: list[Part] = [_argument(one, name in known.consumed) for name, one in given.items()]
    texts, effect = terms(body, [*before, *parts])
    placed = dict(zip(given, texts[len(before) :], strict=True))
    listed = [*texts[: len(before)], *(placed.get(one, "UNSET") for one in known.parameters)]
    return Term(f"{known.function}({', '.join(listed)})", max(effect, CHANGES if known.changes else READS))


def _argument(node: ast.expr, to_the_end: bool) -> Part:
    return (lambda body: consumed(body, node)) if to_the_end else node


def module_call(body: Body, node: ast.Call, path: str) -> Term:
    if path == "collections.defaultdict" and node.args:
        made = node.args[0]
        if builtin(body, made) in ("int", "list", "set", "dict", "str", "float", "bool", "tuple"):
            made = ast.Lambda(_one(), ast.Call(made, [], []))
            ast.fix_missing_locations(ast.copy_location(made, node))
        rest: list[Part] = [*plain_arguments(node)[1:]]
        return call(body, "py_default_dict", [made, *(rest or [UNSET])])
    if path == "sys.stdin.readlines":
        plain_arguments(node)
        return Term("py_to_list(py_input_lines())", CHANGES)
    if path in ("sys.stdout.write", "sys.stderr.write") and len(plain_arguments(node)) == 1:
        (text,), _ = terms(body, node.args)
        return Term(f"py_write_out({path.split('.')[1]}, {text})", CHANGES)
    if path in ("sys.stdout.flush", "sys.stderr.flush"):
        return Term("NOTHING", CONSTANT)
    if path in MODULES:
        return routine(body, node, MODULES[path], path, [])
    raise Untranslatable(f"{path}()", node.lineno)


def method_call(body: Body, node: ast.Call, function: ast.Attribute) -> Term:
    owner, attr = function.value, function.attr
    if attr == "format" and isinstance(owner, ast.Constant) and isinstance(owner.value, str):
        return format_call(body, owner.value, node)
    if builtin(body, owner) == "dict" and attr == "fromkeys" and len(plain_arguments(node)) in (1, 2):
        return call(body, "py_from_keys", [*node.args, *([] if len(node.args) == 2 else [ast.Constant(None)])], CHANGES)
    if attr not in METHODS:
        expression(body, owner)  # which may be the reason
        raise Untranslatable(f"the method {attr}()", node.lineno)
    if builtin(body, owner) in TYPES and node.args:
        held = node.args[0]
        rest = ast.copy_location(ast.Call(function, node.args[1:], node.keywords), node)
        kind = builtin(body, owner)
        return routine(body, rest, METHODS[attr], attr, [lambda own: _of_type(own, held, kind)])
    return routine(body, node, METHODS[attr], attr, [owner])


def _of_type(body: Body, node: ast.expr, kind: str) -> Term:
    term = expression(body, node)
    if kind not in ("str", "list", "dict", "set"):
        raise Untranslatable(f"a method of {kind}", node.lineno)
    return Term(f"py_typed_as({term.text}, K_{kind.upper()})", term.effect)


@rule(ast.GeneratorExp)
def generator(body: Body, node: ast.GeneratorExp) -> Term:
    """Only where nothing tells it from a list that is gone through once."""
    if getattr(node, "returned", False):
        return Term(f"py_to_iter({to_list(body, node).text})", CHANGES)
    raise Untranslatable("a generator expression here", node.lineno)
