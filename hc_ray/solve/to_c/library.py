"""The runtime of translated programs: C definitions in ``runtime/``, of which a program gets those that it uses."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from hc_ray.value import Value

RUNTIME = Path(__file__).parent / "runtime"
INCLUDES = "".join(f"#include <{name}.h>\n" for name in ("setjmp", "stdint", "stdio", "stdlib", "string"))
_DEFINES = re.compile(r"^static [^\n]*?\b(py_\w+)", re.M)
_USES = re.compile(r"\bpy_\w+")


class Piece(Value):
    """One definition of the runtime."""

    text: str
    uses: frozenset[str]

    @property
    def signature(self) -> str:
        """The declaration of a function; empty for a variable."""
        head = next(line for line in self.text.split("\n") if line.startswith("static "))
        return head + ";" if head.endswith(")") else ""


@cache
def pieces() -> Mapping[str, Piece]:
    """Name → definition, in the order of the files. What a definition uses is read off its text."""
    found = {}
    for path in sorted(RUNTIME.glob("*.c")):
        for text in path.read_text(encoding="utf-8").rstrip("\n").split("\n\n"):
            match = _DEFINES.search(text)
            assert match is not None, text
            found[match[1]] = Piece(text=text, uses=frozenset(_USES.findall(text)) - {match[1]})
    return found


def runtime(text: str) -> str:
    """Includes, types and those definitions that a C text uses, directly or not."""
    used = _closure(_USES.findall(text))
    chosen = [piece for name, piece in pieces().items() if name in used]
    variables = [piece.text for piece in chosen if not piece.signature]
    functions = [piece for piece in chosen if piece.signature]
    declared = "\n".join(piece.signature for piece in functions)
    types = (RUNTIME / "types.h").read_text(encoding="utf-8").rstrip("\n")
    return "\n\n".join([INCLUDES + "\n" + types, *variables, declared, *(piece.text for piece in functions)]) + "\n"


def _closure(names: Iterable[str]) -> set[str]:
    known, waiting, used = pieces(), list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in known and name not in used:
            used.add(name)
            waiting.extend(known[name].uses)
    return used
