"""Blocks of statements, and which writer takes which statement."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from hc_ray.solve.to_c.body import Body
from hc_ray.solve.to_c.errors import Untranslatable

Writer = Callable[[Body, Any], bool]
"""Writes a statement; whether what stands behind it is never reached."""
_WRITERS: dict[type[ast.stmt], Writer] = {}


def writer(*kinds: type[ast.stmt]) -> Callable[[Writer], Writer]:
    """Registers how statements of these kinds are written."""

    def register(function: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(kinds, function))
        return function

    return register


def block(body: Body, statements: Sequence[ast.stmt]) -> bool:
    """Writes statements; whether what stands behind them is never reached."""
    for node in statements:
        known = _WRITERS.get(type(node))
        if known is None:
            raise Untranslatable(type(node).__name__.lower(), node.lineno)
        if known(body, node):
            return True
    return False
