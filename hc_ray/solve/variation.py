"""Variants of inputs that are there already: another of the same kind, one step away. For inputs beyond the pools of a
signature's types. Deterministic, without a model, and blind to what any input means."""

import ast
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from hc_ray.solve.scan import parsed

LONGEST = 400
"""Characters of a variant; longer ones are left out."""


def of_value(value: Any) -> Iterator[Any]:
    """Literals of the same type that differ from ``value``: smaller and larger, turned round, doubled, with a part
    changed."""
    found: Iterator[Any] = iter(())
    if isinstance(value, bool):
        found = iter((not value,))
    elif isinstance(value, int):
        found = iter((-value, value + 1, value * 2 + 3, value - 1, value * 10))
    elif isinstance(value, float):
        found = iter((-value, value + 1.0, value / 2, value * 10))
    elif isinstance(value, str):
        found = _of_text(value)
    elif isinstance(value, list):
        found = _of_list(value)
    elif isinstance(value, tuple):
        found = (tuple(one) for one in _of_list(list(value)) if len(one) == len(value))
    elif isinstance(value, dict):
        found = _of_dict(value)
    seen = [value]
    for one in found:
        if one not in seen:
            seen.append(one)
            yield one


def _of_text(text: str) -> Iterator[str]:
    yield text[::-1]
    yield text + text
    yield text.swapcase()
    yield text[1:]
    yield text.replace(" ", "") if " " in text else " ".join(text)
    yield "".join(chr(ord(one) + 1) if one in "abcdefghABCDEFGH01234567" else one for one in text)
    yield text[: len(text) // 2]


def _of_list(items: list[Any]) -> Iterator[list[Any]]:
    for varied in zip(*(list(of_value(item))[:2] for item in items), strict=False) if items else ():
        yield list(varied)
    yield items[::-1]
    yield items + items
    yield items[1:]
    if items:
        for other in list(of_value(items[-1]))[:2]:
            yield [*items[:-1], other]
        yield [*items, items[0]]


def _of_dict(items: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    for place, (key, value) in enumerate(items.items()):
        for other in list(of_value(value))[:2]:
            yield {**items, key: other}
        yield {other: one for i, (other, one) in enumerate(items.items()) if i != place}
    yield dict(reversed(items.items()))


def of_call(text: str) -> Iterator[str]:
    """Calls of the same function with one argument varied; the arguments take turns. None of a text that is no call."""
    tree = parsed(text) if len(text) <= LONGEST else None
    if tree is None or not isinstance(tree.body, ast.Call):
        return
    call = tree.body
    turns: list[list[str]] = []
    for place, argument in enumerate(call.args):
        try:
            value = ast.literal_eval(argument)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        turns.append([ast.unparse(_with(call, place, other)) for other in of_value(value)])
    for together in zip_longest(*turns):
        for one in together:
            if one is not None and len(one) <= LONGEST:
                yield one


def _with(call: ast.Call, place: int, value: Any) -> ast.Call:
    arguments = [*call.args[:place], ast.Constant(value), *call.args[place + 1 :]]
    return ast.Call(func=call.func, args=arguments, keywords=call.keywords)


def of_lines(text: str) -> Iterator[str]:
    """Texts of lines, such as standard input: the lines turned round, repeated, fewer, and every line's words varied as
    numbers or texts."""
    lines = text.splitlines()
    varied = [" ".join(_of_word(word) for word in line.split(" ")) for line in lines]
    made = (varied, lines[::-1], lines + lines, lines[1:], [line.swapcase() for line in lines])
    for one in made:
        found = "".join(f"{line}\n" for line in one)
        if found != text and len(found) <= LONGEST:
            yield found


def _of_word(word: str) -> str:
    try:
        return str(int(word) * 2 + 3)
    except ValueError:
        return word[::-1]
