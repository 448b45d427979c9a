"""Parses a text as Python. Never raises, and does not warn about stray backslashes in a model's strings."""

import ast
import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def parsed(text: str) -> ast.Module | None:
    """The text as a module; None if it is not one."""
    return _quietly(lambda: ast.parse(text))


def expression(text: str) -> ast.Expression | None:
    """The text as an expression, ignoring surrounding space; None if it is not one."""
    return _quietly(lambda: ast.parse(text.strip(), mode="eval"))


def _quietly(parse: Callable[[], T]) -> T | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return parse()
        # SystemError: Python 3.11 says so of a deep text while another thread parses (gh-106905).
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError, SystemError):
            return None
