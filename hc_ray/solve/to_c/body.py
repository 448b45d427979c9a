"""The body of one C function while it is written, and the order in which its expressions are worked out.

C leaves open in which order the arguments of a call are worked out; Python goes from left to right. A term therefore
says how it depends on the order, and ``terms`` gives a variable of its own to what would be worked out too late."""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.names import Function, bound, c_name, parameters, shared

CONSTANT, READS, CHANGES = range(3)
"""How a term depends on the order: not, by what it reads, or by what it changes (or prints, or raises)."""


class Term(NamedTuple):
    """A C expression."""

    text: str
    effect: int = READS


class Unit:
    """One program: what its functions share."""

    def __init__(self, functions: dict[str, ast.FunctionDef], imports: dict[str, str], *, strict: bool, numbers: bool):
        """``strict``: reading counts as changing; errors are caught somewhere, so that their order counts."""
        self.functions, self.imports = functions, imports
        self.strict, self.numbers = strict, numbers
        self.wanted: list[str] = []
        self.inner: list[str] = []
        """C functions of the functions in functions."""
        self.taken: set[str] = set()

    def want(self, name: str) -> str:
        """The C name of a function of the program, which will be written too."""
        if name not in self.wanted:
            self.wanted.append(name)
        return f"def_{name}"

    def fresh(self, name: str) -> str:
        """A name for a C function that is not yet taken."""
        made, i = name, 1
        while made in self.taken or made.removeprefix("def_") in self.functions:
            i += 1
            made = f"{name}_{i}"
        self.taken.add(made)
        return made


class Body:
    """One function while it is written."""

    def __init__(self, unit: Unit, function: Function, name: str, parent: "Body | None" = None) -> None:
        self.unit, self.function, self.name, self.parent = unit, function, name, parent
        self.locals = {one: c_name(one) for one in bound(function)}
        self.cells = shared(function)
        self.captures: list[str] = []
        self.frames: list[dict[str, str]] = []
        """Variables of the comprehensions around, the innermost last: Python's name → C's."""
        self.lines: list[str] = []
        self.depth = 1
        self.assigned = {one.arg for one in parameters(function)}
        """Variables that surely have a value here."""
        self.guarded = any(isinstance(one, ast.Try) for one in ast.walk(function))
        self.caught: list[str] = []
        """The try statements whose errors are being handled here."""
        self.handlers: list[str] = []
        """The try statements around whose errors are caught here."""
        self.loops: list[tuple[int, str]] = []
        """The loops around: how many handlers were open, and the variable that says that it was left, or none."""
        self._count: dict[str, int] = {}
        self._names = set(self.locals.values())

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """What is written meanwhile is kept in a list of its own."""
        kept, self.lines = self.lines, []
        yield self.lines
        self.lines = kept

    def fresh(self, name: str) -> str:
        """A C variable that is not yet there."""
        while True:
            self._count[name] = self._count.get(name, 0) + 1
            made = f"{name}_{self._count[name]}"
            if made not in self._names:
                self._names.add(made)
                return made

    def variable(self, name: str) -> str:
        """A C variable for one of a comprehension: its own name if that is free."""
        made = c_name(name)
        if made in self._names:
            return self.fresh(made)
        self._names.add(made)
        return made

    def temporary(self, text: str, kind: str = "Value") -> str:
        """A variable that holds what a term gives now."""
        name = self.fresh("tmp")
        self.emit(f"{'volatile ' if self.guarded else ''}{kind} {name} = {text};")
        return name

    def owns(self, name: str) -> bool:
        return any(name in frame for frame in self.frames) or name in self.locals

    def is_variable(self, name: str) -> bool:
        """Whether a name is a variable here or of a function around."""
        return self.owns(name) or (self.parent is not None and self.parent.is_variable(name))

    def place(self, name: str) -> str:
        """Where a variable's value is: a C expression that can be assigned to."""
        if not self.owns(name):
            return f"*{self.cell(name)}"
        own = next((frame[name] for frame in reversed(self.frames) if name in frame), None) or self.locals[name]
        return f"*{own}" if name in self.cells else own

    def cell(self, name: str) -> str:
        """The cell of a variable that inner functions share."""
        if self.owns(name):
            if name not in self.cells:
                raise Untranslatable(f"{name!r} in an inner function", self.function.lineno)
            return self.place(name)[1:]
        if name not in self.captures:
            self.captures.append(name)
        return f"cells[{self.captures.index(name)}]"

    def surely(self, name: str) -> bool:
        """Whether a variable surely has a value here."""
        if any(name in frame for frame in self.frames):
            return True
        if name in self.locals:
            return name in self.assigned
        return self.parent is not None and self.parent.is_parameter(name)

    def is_parameter(self, name: str) -> bool:
        if any(name in frame for frame in self.frames):
            return True
        if name in self.locals:
            deleted = any(isinstance(one, ast.Name) and isinstance(one.ctx, ast.Del) for one in ast.walk(self.function))
            return not deleted and any(one.arg == name for one in parameters(self.function))
        return self.parent is not None and self.parent.is_parameter(name)


Rule = Callable[[Body, Any], Term]
_RULES: dict[type[ast.AST], Rule] = {}
_CONDITIONS: dict[type[ast.AST], Rule] = {}


def rule(*kinds: type[ast.AST]) -> Callable[[Rule], Rule]:
    """Registers how nodes of these kinds become C expressions of the type ``Value``."""

    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def condition_rule(*kinds: type[ast.AST]) -> Callable[[Rule], Rule]:
    """The same for truth values: C expressions of the type ``int``."""

    def register(function: Rule) -> Rule:
        _CONDITIONS.update(dict.fromkeys(kinds, function))
        return function

    return register


def expression(body: Body, node: ast.expr) -> Term:
    """A Python expression as a C expression; statements that must come before it are written to the body."""
    if type(node) in _RULES:
        term = _RULES[type(node)](body, node)
    elif type(node) in _CONDITIONS:
        told = condition(body, node)
        term = Term(f"py_bool({told.text})", told.effect)
    else:
        raise Untranslatable(type(node).__name__, getattr(node, "lineno", 0))
    if body.unit.strict and term.effect == READS and not isinstance(node, ast.Name):
        return Term(term.text, CHANGES)
    return term


def condition(body: Body, node: ast.expr) -> Term:
    """Whether a Python expression is true, as a C expression."""
    if type(node) in _CONDITIONS:
        return _CONDITIONS[type(node)](body, node)
    term = expression(body, node)
    if term.text.startswith("py_bool(") and _closes_at_end(term.text):
        return Term(term.text[len("py_bool(") : -1], term.effect)
    return Term(f"py_truth({term.text})", term.effect)


def _closes_at_end(text: str) -> bool:
    """Whether the first parenthesis is closed by the last character."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', "", text)
    depth = 0
    for i, c in enumerate(bare):
        depth += (c == "(") - (c == ")")
        if c == ")" and depth == 0:
            return i == len(bare) - 1
    return False


Part = ast.expr | Term | Callable[[Body], Term]


def part(body: Body, one: Part) -> Term:
    if isinstance(one, Term):
        return one
    return expression(body, one) if isinstance(one, ast.expr) else one(body)


def terms(body: Body, parts: Sequence[Part]) -> tuple[list[str], int]:
    """C expressions for several Python ones that stand in one C expression, worked out from left to right; and how
    they depend on the order together."""
    worked: list[tuple[list[str], Term]] = []
    for one in parts:
        with body.aside() as lines:
            term = part(body, one)
        worked.append((lines, term))
    last = max((i for i, (lines, term) in enumerate(worked) if lines or term.effect == CHANGES), default=-1)
    later = any(term.effect != CONSTANT for _, term in worked[last + 1 :])
    texts, effect = [], CONSTANT
    for i, (lines, term) in enumerate(worked):
        body.lines.extend(lines)
        kept = (i < last and term.effect != CONSTANT) or (i == last and term.effect == CHANGES and later)
        texts.append(body.temporary(term.text) if kept else term.text)
        effect = max(effect, READS if kept else term.effect)
    return texts, effect


def call(body: Body, function: str, parts: Sequence[Part], effect: int = READS) -> Term:
    """A call of a C function with several Python expressions."""
    texts, own = terms(body, parts)
    return Term(f"{function}({', '.join(texts)})", max(effect, own))


def array(texts: Sequence[str]) -> str:
    """Count and values, as the runtime takes them."""
    return f"{len(texts)}, (Value[]){{{', '.join(texts)}}}" if texts else "0, NULL"


def quoted(text: str, line: int = 0) -> str:
    """A text as a C expression."""
    data = text.encode("utf-8", "surrogatepass")
    if b"\0" in data or len(data) > 4000 or any(0xD800 <= ord(c) < 0xE000 for c in text):
        raise Untranslatable("such a text", line)
    named = {10: "\\n", 9: "\\t", 13: "\\r", 34: '\\"', 92: "\\\\", 63: "\\?"}
    return 'py_str("' + "".join(named.get(b, chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '")'
