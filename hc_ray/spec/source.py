"""A text as Python, whatever it holds: nothing here raises, and a stray backslash in a model's string is no news."""

import ast
import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def parsed(text: str) -> ast.Module | None:
    """None where the text is no module."""
    return _quietly(lambda: ast.parse(text))


def expression(text: str) -> ast.Expression | None:
    """None where the text is no expression, space around it aside."""
    return _quietly(lambda: ast.parse(text.strip(), mode="eval"))


def _quietly(parse: Callable[[], T]) -> T | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return parse()
        # SystemError: Python 3.11 says so of a deep text while another thread parses (gh-106905).
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, SystemError):
            return None
