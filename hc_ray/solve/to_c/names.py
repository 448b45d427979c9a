"""Names: which ones a Python function binds and which inner functions share, and what they are called in C."""

import ast
import re
from collections.abc import Iterable, Iterator

from hc_ray.solve.to_c.errors import Untranslatable

Function = ast.FunctionDef | ast.Lambda
_KEPT = re.compile(r"(?!(?:py|tmp|def|it|handler|parts|broken|given)_)[a-z_][A-Za-z0-9_]*(?<!_)|_")
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof asm auto bool break case cells char const constexpr continue default do double else enum
        errno extern false float for given goto i386 if inline int linux long main nullptr register restrict return
        setjmp short signed sizeof static static_assert stderr stdin stdout struct switch thread_local true typedef
        typeof typeof_unqual union unix unsigned void volatile while""",
    )
)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def c_name(name: str) -> str:
    """What a Python variable is called in C. Different names stay different."""
    if not name.isascii():
        raise Untranslatable(f"the name {name!r}")
    return name if _KEPT.fullmatch(name) and not name.startswith("__") and name not in _RESERVED else name + "_"


def parameters(function: Function) -> list[ast.arg]:
    """Those of a function; none may be starred."""
    taken = function.args
    if taken.vararg or taken.kwarg:
        raise Untranslatable("starred parameters", function.lineno)
    return [*taken.posonlyargs, *taken.args, *taken.kwonlyargs]


def defaults(function: Function) -> dict[str, ast.expr]:
    """Parameter → what it is if it is not given."""
    taken = function.args
    placed = [*taken.posonlyargs, *taken.args]
    found = dict(zip([one.arg for one in placed[len(placed) - len(taken.defaults) :]], taken.defaults, strict=True))
    named = zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
    return {**found, **{one.arg: value for one, value in named if value is not None}}


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """All nodes of a function but those of functions in it; these themselves are among them."""
    waiting: list[ast.AST] = list(function.body) if isinstance(function, ast.FunctionDef) else [function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _SCOPES):
            taken = getattr(node, "args", None)
            waiting.extend([] if taken is None else [*taken.defaults, *(one for one in taken.kw_defaults if one)])
        else:
            waiting.extend(ast.iter_child_nodes(node))


def bound(function: Function) -> list[str]:
    """The local variables, parameters first, in the order of the text; not those of comprehensions."""
    inside = set[int]()
    nodes = list(own_nodes(function))
    for node in nodes:
        if isinstance(node, COMPREHENSIONS):
            inside.update(id(one) for part in node.generators for one in ast.walk(part.target))
    found: list[tuple[int, int, str]] = []
    outer = set[str]()
    for node in nodes:
        place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in inside:
            found.append((*place, node.id))
        elif isinstance(node, ast.FunctionDef) or (isinstance(node, ast.ExceptHandler) and node.name):
            found.append((*place, node.name or ""))
        elif isinstance(node, ast.Global):
            raise Untranslatable("global", node.lineno)
        elif isinstance(node, ast.Nonlocal):
            outer.update(node.names)
    names = [one.arg for one in parameters(function)] + [name for *_, name in sorted(found)]
    return [name for name in dict.fromkeys(names) if name not in outer]


def shared(function: Function) -> set[str]:
    """Names that functions inside use: variables of these names live in cells."""
    inner = [node for node in own_nodes(function) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    return {name for one in inner for name in _used(ast.walk(one))}


def loaded(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are read somewhere in these."""
    return {
        one.id
        for node in nodes
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
    }


def _used(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Nonlocal):
            yield from node.names


def fixed(node: ast.expr) -> ast.expr:
    """A default value, which must be the same each time."""
    simple = isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )
    if not simple and not (isinstance(node, ast.Tuple) and all(isinstance(one, ast.Constant) for one in node.elts)):
        raise Untranslatable("a default value that is no constant", node.lineno)
    return node
