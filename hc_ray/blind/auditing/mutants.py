"""Small faults planted into a reference solution, to see which of them a suite notices. Python only, by its syntax
tree.

Five operators: a comparison swapped, an arithmetic operator swapped, a number off by one, a condition flipped, a
statement deleted or what it returns taken away. A fault counts only once the real tests have failed it: many mutants
change nothing that matters, and only the real tests can tell."""

import ast
import copy
import io
import random
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal

from hc_ray.domain.value import Value

Operator = Literal["comparison", "arithmetic", "constant", "condition", "statement"]
OPERATORS: tuple[Operator, ...] = ("comparison", "arithmetic", "constant", "condition", "statement")

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
SOURCE_LIMIT = 200_000
"""Bytes of a file that is still mutated."""
FILES = 20
_FOREIGN = ("site-packages/", "dist-packages/", "__pycache__/", "node_modules/")
_DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Delete, ast.Break, ast.Continue, ast.Assert)


class Mutant(Value):
    """One changed copy of a source."""

    operator: Operator
    source: str


def mutants(source: str, *, limit: int, seed: str = "") -> tuple[Mutant, ...]:
    """At most ``limit`` different mutants of a Python source, the operators in turn; the same ones for the same seed.
    None for a text that is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    places: dict[Operator, list[tuple[int, int]]] = defaultdict(list)
    silent = _silent(tree)
    for position, node in enumerate(ast.walk(tree)):
        if id(node) not in silent:
            for variant, operator in enumerate(_operators(node)):
                places[operator].append((position, variant))
    for operator in OPERATORS:
        random.Random(f"{seed}:{operator}").shuffle(places[operator])
    in_turn = zip_longest(*([(operator, *place) for place in places[operator]] for operator in OPERATORS))
    made: list[Mutant] = []
    seen = {ast.unparse(tree)}
    for operator, position, variant in (place for turn in in_turn for place in turn if place):
        if len(made) == limit:
            break
        text = _changed(tree, operator, position, variant)
        if text not in seen:
            seen.add(text)
            made.append(Mutant(operator=operator, source=text + "\n"))
    return tuple(made)


def _changed(tree: ast.Module, operator: Operator, position: int, variant: int) -> str:
    """The text of a copy in which a node is changed."""
    changed = copy.deepcopy(tree)
    # The copy is walked in the same order, so the position finds the same node.
    target = next(node for i, node in enumerate(ast.walk(changed)) if i == position)
    _apply(changed, target, operator, variant)
    return ast.unparse(ast.fix_missing_locations(changed))


def _silent(tree: ast.Module) -> set[int]:
    """Nodes that no run notices: annotations, docstrings and other bare constants."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots.append(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            roots.append(node.returns)
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            roots.append(node.annotation)
    return {id(inner) for root in roots for inner in ast.walk(root)}


def _operators(node: ast.AST) -> list[Operator]:
    """What can be done to a node; an operator twice where it can be done in two ways (``_apply`` gets the place)."""
    if isinstance(node, ast.Compare):
        return ["comparison"] * len(node.ops)
    if isinstance(node, ast.BinOp | ast.AugAssign):
        more: list[Operator] = ["statement"] if isinstance(node, ast.AugAssign) else []
        swapped: list[Operator] = ["arithmetic"] if type(node.op) in ARITHMETIC else []
        return [*swapped, *more]
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return ["condition"]
        return ["constant", "constant"] if isinstance(node.value, int | float) else []
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.BoolOp):
        return ["condition"]
    if isinstance(node, ast.UnaryOp):
        return ["condition"] if isinstance(node.op, ast.Not) else []
    if isinstance(node, ast.comprehension):
        return ["condition"] * len(node.ifs)
    if isinstance(node, ast.Return):
        return ["statement"] if node.value is not None else []
    return ["statement"] if isinstance(node, _DELETED) else []


def _apply(tree: ast.Module, node: ast.AST, operator: Operator, variant: int) -> None:
    if isinstance(node, ast.Compare):
        node.ops[variant] = COMPARISONS[type(node.ops[variant])]()
    elif operator == "arithmetic":
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        node.op = ARITHMETIC[type(node.op)]()
    elif operator == "constant":
        assert isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        node.value = node.value + (1 if variant == 0 else -1)
    elif operator == "condition":
        _flip(tree, node, variant)
    elif isinstance(node, ast.Return):
        node.value = ast.Constant(value=None)
    else:
        _replace(tree, node, ast.Pass())


def _flip(tree: ast.Module, node: ast.AST, variant: int) -> None:
    if isinstance(node, ast.Constant):
        node.value = not node.value
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    elif isinstance(node, ast.comprehension):
        node.ifs[variant] = ast.UnaryOp(op=ast.Not(), operand=node.ifs[variant])
    elif isinstance(node, ast.UnaryOp):
        _replace(tree, node, node.operand)


def _replace(tree: ast.Module, old: ast.AST, new: ast.AST) -> None:
    """Put ``new`` where ``old`` stands."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
            elif isinstance(value, list) and any(one is old for one in value):
                value[[one is old for one in value].index(True)] = new


def mutated(tar: bytes, *, limit: int, seed: str) -> tuple[tuple[str, str], ...] | None:
    """Mutants of an end state: (path, that file's new text), the files in turn. None where it holds no
    Python: other languages are not measured."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        sources = {member.name: data for member in archive if (data := _python(archive, member)) is not None}
    if not sources:
        return None
    made: Sequence[list[tuple[str, str]]] = [
        [(path, one.source) for one in mutants(text, limit=limit, seed=f"{seed}:{path}")]
        for path, text in sorted(sources.items())[:FILES]
    ]
    return tuple([one for turn in zip_longest(*made) for one in turn if one][:limit])


def _python(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    """A member's text where it is a Python source of the solution's own."""
    if not member.isreg() or member.size > SOURCE_LIMIT or any(part in member.name for part in _FOREIGN):
        return None
    file = archive.extractfile(member)
    data = file.read() if file else b""
    first = data.split(b"\n", 1)[0]
    if not member.name.endswith(".py") and not (first.startswith(b"#!") and b"python" in first):
        return None
    try:
        text = data.decode()
        ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return text


def with_file(tar: bytes, path: str, text: str) -> bytes:
    """The end state with one file's text replaced; its first line kept where that names an interpreter."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(tar)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for member in old:
            file = old.extractfile(member) if member.isreg() else None
            if member.name == path and file is not None:
                first = file.readline()
                data = (first if first.startswith(b"#!") else b"") + text.encode()
                changed = copy.copy(member)
                changed.size = len(data)
                new.addfile(changed, io.BytesIO(data))
            else:
                new.addfile(member, file)
    return buffer.getvalue()
