"""Generates inputs without a model, from the types of a signature's annotations, its defaults and shown examples. They
are used for agreement of behaviour (``best_of_n``) and to fill categories with too few tests."""

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from hc_ray.spec.source import expression

Range = Literal["ordinary", "boundary", "edge"]


@cache
def _pools() -> dict[str, dict[Range, list[str]]]:
    """Kind → range → literals, from ``inputs.yaml`` beside this module."""
    found: dict[str, dict[Range, list[str]]] = yaml.safe_load(Path(__file__).with_name("inputs.yaml").read_text())
    return found


def told_kind(parameter: str, *, sample: str | None = None) -> str | None:
    """The pool's key for a parameter (``name``, ``name: annotation``, ``name=default``), from a shown argument, else
    the annotation, else the default; None without any of them."""
    if sample is not None and sample not in _EMPTY and (kind := _kind_of_literal(sample)):
        return kind
    declared, _, default = parameter.partition("=")
    otherwise = sample if sample is not None and sample in _EMPTY else default.strip()
    return _kind_of_annotation(declared.partition(":")[2]) or _kind_of_literal(otherwise)


def _is_record(sample: str | None) -> bool:
    """Whether a shown argument is a tuple, or a list of pairs, tuples or dictionaries: values in the pools have other
    shapes, which correct code may not accept."""
    try:
        value = ast.literal_eval(sample or "0")
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    if not isinstance(value, list) or not value:
        return isinstance(value, tuple)
    shaped = any(isinstance(one, tuple | dict) for one in value)
    return shaped or all(isinstance(one, list) and len(one) == 2 for one in value)


def fits(call: str, parameters: Sequence[str], samples: Sequence[str] | None) -> bool:
    """Whether a call fits the signature's number of arguments (any number if unknown) and, given shown calls, their
    types (None: any types). Bare names, and expressions of unknown type, always fit."""
    tree = expression(call)
    if tree is None or not isinstance(tree.body, ast.Call):
        return False
    given, named = tree.body.args, {word.arg for word in tree.body.keywords if word.arg}
    starred = any(isinstance(one, ast.Starred) for one in given) or any(one.strip()[:1] == "*" for one in parameters)
    if parameters and not starred:
        names = [re.split(r"[:=]", part)[0].strip() for part in parameters]
        left = {name: part for name, part in zip(names, parameters, strict=True) if name not in names[: len(given)]}
        if len(given) > len(names) or not {name for name in left if "=" not in left[name]} <= named <= left.keys():
            return False
    for place, argument in enumerate(given[: len(parameters)] if samples is not None else ()):
        if parameters[place].strip().startswith("*"):
            break
        told = told_kind(parameters[place], sample=_argument(samples or (), place))
        seen = _kind_of_literal(ast.unparse(argument))
        if told and seen and _broad(told) != _broad(seen):
            return False
    return True


def _broad(kind: str) -> str:
    return "float" if kind == "int" else kind.split("[")[0]


def _kind_of_annotation(annotation: str) -> str | None:
    """The pool's key for an annotation; None if there is none."""
    text = annotation.strip().replace(" ", "").lower().removeprefix("typing.")
    if text in ("int", "float", "bool", "str"):
        return text
    if re.match(r"(list|sequence|iterable|tuple)\[(list|tuple|sequence)", text):
        return "list[list[int]]"
    if re.match(r"(list|sequence|iterable|tuple|set)\[str", text):
        return "list[str]"
    if re.match(r"(list|sequence|iterable|tuple|set)\b", text):
        return "list[int]"
    return "dict[str, int]" if re.match(r"(dict|mapping)\b", text) else None


def _kind_of_literal(source: str) -> str | None:
    try:
        value = ast.literal_eval(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float | str):
        return type(value).__name__
    if isinstance(value, dict):
        return "dict[str, int]"
    if isinstance(value, list | tuple | set):
        inner = next(iter(value), 0)
        if isinstance(inner, list | tuple):
            return "list[list[int]]"
        return "list[str]" if isinstance(inner, str) else "list[int]"
    return None


def calls(name: str, parameters: Sequence[str], samples: Sequence[str], reach: Range, count: int) -> tuple[str, ...]:
    """Up to ``count`` distinct calls of ``name`` in a range; none unless every parameter's type is known, since an
    input of a wrong type shows nothing. ``parameters``: as in the signature; ``samples``: stated calls, for their
    types."""
    wanted = [part for part in parameters if part.strip() and not part.strip().startswith("*")]
    shown = [_argument(samples, i) for i in range(len(wanted))]
    kinds = [kind for part, one in zip(wanted, shown, strict=True) if (kind := told_kind(part, sample=one))]
    if not wanted or len(kinds) < len(wanted) or any(map(_is_record, shown)):
        return ()
    made: list[str] = []
    for turn in range(count * 3):
        chosen = []
        for i, kind in enumerate(kinds):
            # The first argument takes values of the range; the others alternate with ordinary ones.
            pool = _pools()[kind][reach if i == 0 or turn % 2 else "ordinary"]
            chosen.append(pool[(turn + i) % len(pool)])
        call = f"{name}({', '.join(chosen)})"
        tree = expression(call)
        if tree is not None and (text := ast.unparse(tree)) not in made:
            made.append(text)
        if len(made) == count:
            break
    return tuple(made)


_EMPTY = ("[]", "()", "set()", "None")


def _argument(samples: Sequence[str], place: int) -> str | None:
    """The argument at a position in the first informative sample; an empty list does not tell its element type."""
    shown: list[str] = []
    for sample in samples:
        tree = expression(sample)
        if tree is not None and isinstance(tree.body, ast.Call) and len(tree.body.args) > place:
            shown.append(ast.unparse(tree.body.args[place]))
    return next((one for one in shown if one not in _EMPTY), shown[0] if shown else None)
