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
from collections.abc import Iterator, Sequence
from itertools import repeat, zip_longest
from typing import Any, Literal, NamedTuple

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
    places: dict[Operator, list[_Edit]] = defaultdict(list)
    for edit in _edits(tree, _silent(tree)):
        places[edit.operator].append(edit)
    for operator in OPERATORS:
        random.Random(f"{seed}:{operator}").shuffle(places[operator])
    made: list[Mutant] = []
    seen = {ast.unparse(tree)}
    for edit in (edit for turn in zip_longest(*map(places.get, OPERATORS, repeat([]))) for edit in turn if edit):
        if len(made) == limit:
            break
        text = edit.applied(tree)
        if text not in seen:
            seen.add(text)
            made.append(Mutant(operator=edit.operator, source=text + "\n"))
    return tuple(made)


class _Edit(NamedTuple):
    """One change of a tree: a field of a node gets another value."""

    operator: Operator
    node: ast.AST
    field: str
    value: Any

    def applied(self, tree: ast.Module) -> str:
        """The text with this change; the tree is left as it was."""
        before = getattr(self.node, self.field)
        setattr(self.node, self.field, self.value)
        try:
            return ast.unparse(ast.fix_missing_locations(tree))
        finally:
            setattr(self.node, self.field, before)


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


def _edits(tree: ast.Module, silent: set[int]) -> Iterator[_Edit]:
    """Everything that can be done to a tree."""
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        yield from _of_node(node)
        for field, held in ast.iter_fields(node):
            inner = held if isinstance(held, list) else [held]
            for place, child in enumerate(inner):
                if id(child) in silent or not isinstance(child, ast.AST):
                    continue
                operator, new = _instead_of(child)
                if operator is not None:
                    changed = [*inner[:place], new, *inner[place + 1 :]]
                    yield _Edit(operator, node, field, changed if isinstance(held, list) else new)


def _of_node(node: ast.AST) -> Iterator[_Edit]:
    """What can be done to a node's own parts."""
    if isinstance(node, ast.Compare):
        for i, one in enumerate(node.ops):
            yield _Edit("comparison", node, "ops", [*node.ops[:i], COMPARISONS[type(one)](), *node.ops[i + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        yield _Edit("arithmetic", node, "op", ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield _Edit("condition", node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield from (_Edit("constant", node, "value", node.value + by) for by in (1, -1))
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield _Edit("condition", node, "test", ast.UnaryOp(op=ast.Not(), operand=node.test))
    elif isinstance(node, ast.BoolOp):
        yield _Edit("condition", node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.comprehension):
        for i, condition in enumerate(node.ifs):
            turned = ast.UnaryOp(op=ast.Not(), operand=condition)
            yield _Edit("condition", node, "ifs", [*node.ifs[:i], turned, *node.ifs[i + 1 :]])
    elif isinstance(node, ast.Return) and node.value is not None:
        yield _Edit("statement", node, "value", ast.Constant(value=None))


def _instead_of(child: ast.AST) -> tuple[Operator | None, ast.AST]:
    """What can stand in the place of a node."""
    if isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
        return "condition", child.operand
    return ("statement" if isinstance(child, _DELETED) else None), ast.Pass()


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
