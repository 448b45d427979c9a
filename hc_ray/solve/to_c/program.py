"""A whole C program for one Python function."""

import ast
import sys
import warnings
from collections.abc import Sequence

from hc_ray.solve.to_c import raising, specials, statements, texts
from hc_ray.solve.to_c.blocks import block
from hc_ray.solve.to_c.body import Body, Unit, expression
from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.functions import signature, written
from hc_ray.solve.to_c.library import runtime
from hc_ray.solve.to_c.names import defaults, fixed, loaded, parameters

RULES = (raising, specials, statements, texts)
"""Modules that register rules when they are imported."""
PRESENT = ("collections", "csv", "io", "json", "math", "os", "re", "sys")
"""Modules that a frame imports for its function."""
_GIVEN = {"arguments": "py_arguments(argc, argv, 1)", "text": "py_input_whole()"}
_MAIN = """int main(int argc, char **argv)
{{
    py_stack = (uintptr_t)&argc;
{before}    py_print_result({call});
    return 0;
}}
"""


def program(function: str, *, name: str, parameters: Sequence[str]) -> str:
    """A C99 program that does what a Python function does, and prints what it returns as a frame prints it.

    ``function``: definitions and imports; they may use ``_typed`` of ``frames``. ``name``: the one that is called;
    ``parameters``: what it is given, of "arguments" (those of the command line) and "text" (the standard input without
    its last line break).

    Raises ``Untranslatable`` for what cannot be carried over faithfully."""
    try:
        return _program(function, name, parameters)
    except RecursionError as error:
        raise Untranslatable("too deeply nested") from error


def _program(text: str, name: str, taken: Sequence[str]) -> str:
    tree = _parsed(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        raise Untranslatable(f"no function {name}")
    # A dictionary with default values grows where it is read.
    strict = "defaultdict" in text or any(isinstance(node, ast.Try) for node in ast.walk(tree))
    numbers = any(isinstance(node, ast.Name) and node.id == "_typed" for node in ast.walk(tree))
    unit = Unit(functions, _imports(tree), strict=strict, numbers=numbers)
    main = unit.want(name)
    bodies = []
    for wanted in unit.wanted:  # grows while functions are written
        bodies.append(_function(unit, functions[wanted]))
    order = sorted(bodies, key=lambda one: one[0] == main)
    declared = "".join(f"static Value {one}({taken});\n" for one, taken, _ in order)
    inner = [one.split("\n", 1)[0] + ";\n" for one in unit.inner]
    own = "\n".join([declared + "".join(inner), *unit.inner, *(code for _, _, code in order)])
    code = f"{own}\n{_main(functions[name], main, taken, 'py_argv' in own)}"
    return f"{_comment(text)}\n{runtime(code)}\n/* The function itself. */\n\n{code}"


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            compile(tree, "<function>", "exec")
        except (SyntaxError, ValueError, MemoryError, OverflowError) as error:
            raise Untranslatable("no Python") from error
    for node in tree.body:
        note = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not note and not isinstance(node, (ast.FunctionDef, ast.Import, ast.ImportFrom)):
            raise Untranslatable(f"{type(node).__name__.lower()} outside of functions", node.lineno)
    return tree


def _imports(tree: ast.Module) -> dict[str, str]:
    """Name → what of the standard library it stands for."""
    found = {one: one for one in PRESENT}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                _standard(one.name, node.lineno)
                found[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            _standard(node.module or "", node.lineno)
            found.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})
    return found


def _standard(module: str, line: int) -> None:
    if module.partition(".")[0] not in sys.stdlib_module_names:
        raise Untranslatable(f"import of {module or 'such a module'}", line)


def _function(unit: Unit, node: ast.FunctionDef) -> tuple[str, str, str]:
    """C name, parameters and text of a function of the program."""
    if node.decorator_list:
        raise Untranslatable("a decorator", node.lineno)
    body = Body(unit, node, f"def_{node.name}")
    if not node.name.isascii():
        raise Untranslatable(f"the name {node.name!r}", node.lineno)
    if _recurs(unit, node.name):
        body.emit("py_check_depth();")
    block(body, node.body)
    taken = signature(body)
    return body.name, taken, written(body, taken)


def _recurs(unit: Unit, name: str) -> bool:
    """Whether a function may come to call itself."""
    seen, waiting = set[str](), [name]
    while waiting:
        for one in loaded([unit.functions[waiting.pop()]]) & set(unit.functions):
            if one == name:
                return True
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return False


def _main(function: ast.FunctionDef, main: str, taken: Sequence[str], argv: bool) -> str:
    known = parameters(function)
    if len(taken) > len(known) - len(function.args.kwonlyargs):
        raise Untranslatable("fewer parameters than there is to give", function.lineno)
    otherwise = defaults(function)
    given = []
    for i, one in enumerate(known):
        if i < len(taken):
            given.append(_GIVEN[taken[i]])
        elif one.arg in otherwise:
            given.append(_default(otherwise[one.arg], function))
        else:
            raise Untranslatable("more parameters than there is to give", function.lineno)
    before = "    py_argv = py_arguments(argc, argv, 0);\n" if argv else ""
    if not argv and "arguments" not in taken:
        before = "    (void)argv;\n"
    return _MAIN.format(before=before, call=f"{main}({', '.join(given)})")


def _default(node: ast.expr, function: ast.FunctionDef) -> str:
    return expression(Body(Unit({}, {}, strict=False, numbers=False), function, "main"), fixed(node)).text


def _comment(text: str) -> str:
    """The Python text, so that it ends no comment and means nothing to a compiler."""
    safe = text.rstrip("\n").replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("\\\n", "\\ \n")
    lines = [line.encode("ascii", "backslashreplace").decode("ascii").rstrip() for line in safe.splitlines()]
    quoted = "\n".join(f" *     {line}".rstrip() for line in lines)
    return f"/*\n * A translation of this Python function into C:\n *\n{quoted}\n */\n"
