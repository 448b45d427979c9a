"""Functions that an instruction names, and the calls that it shows of them."""

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Sequence

from hc_ray.spec.calls import balanced, call_in_normal_form, find_calls
from hc_ray.spec.markdown import Block
from hc_ray.spec.source import parsed
from hc_ray.spec.spec import Call, Signature

_DEFINITION = re.compile(r"(?<![\w.])def\s+([A-Za-z_]\w*)\s*(?=\()")
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?=\()")
_DEFINED = re.compile(r"\b(?:def|class|function|fn|func)\s+$")
_RETURNS = re.compile(r"\s*->\s*([^:`\n#]{1,200}?)\s*(?::|(?=`)|$)")
_SHOWN = re.compile(r"^\s*(?:>>>\s*|assert\s+|[-*]\s+|\|\s*)?([A-Za-z_]\w*)\(", re.MULTILINE)
"""A line of code that begins with a call, as doctests, assertions and lists of examples do."""
_MOST_NAMES = 32
"""Functions whose calls are looked for."""


def read_signatures(text: str, blocks: Sequence[Block]) -> tuple[Signature, ...]:
    """Functions in order of mention, each name once, its fullest statement: definitions wherever they stand, and code
    spans such as ``f(a, b)`` whose arguments are all names."""
    kept: dict[str, Signature] = {}
    defined = [_signature(match[1], text, match.end()) for match in _DEFINITION.finditer(text)]
    for signature in filter(None, [*defined, *_spans(blocks)]):
        held = kept.get(signature.name)
        if held is None or (signature.returns and not held.returns):
            kept[signature.name] = signature
    return tuple(sorted(kept.values(), key=lambda one: text.find(one.name)))


def called_only(calls: Iterable[Call], signatures: Iterable[Signature]) -> tuple[Signature, ...]:
    """Functions of which only calls are shown: their names."""
    stated = {one.name for one in signatures}
    names = dict.fromkeys(one.function for one in calls if one.function not in stated)
    return tuple(Signature(name=name, parameters=None) for name in names)


def read_calls(text: str, blocks: Sequence[Block], signatures: Sequence[Signature]) -> tuple[Call, ...]:
    """Calls with literal arguments, each once, in order: of the functions with a signature, and of functions that a
    code span or a line of code shows with a value. A call that is shown with two different values has none."""
    stated = [one.name for one in signatures]
    names = list(dict.fromkeys([*stated, *_called(blocks)]))[:_MOST_NAMES]
    found: dict[str, Call] = {}
    disputed: set[str] = set()
    for start, call in find_calls(text, *names).items():
        if _DEFINED.search(text, max(0, start - 20), start):
            continue
        held = found.get(call.call)
        if held is None or (_open(held) and not _open(call)):
            found.pop(call.call, None)  # it stands where its value does
            found[call.call] = call
        elif not _open(call) and (held.expected, held.rejected) != (call.expected, call.rejected):
            disputed.add(call.call)
    calls = [
        one.model_copy(update={"expected": None, "rejected": False}) if one.call in disputed else one
        for one in found.values()
    ]
    known = {*stated, *(one.function for one in calls if not _open(one))}
    # A call without arguments and value is what a program's own text does.
    return tuple(one for one in calls if one.function in known and not (_open(one) and one.call.endswith("()")))


def _open(call: Call) -> bool:
    return call.expected is None and not call.rejected


def _spans(blocks: Sequence[Block]) -> Iterator[Signature]:
    for span in (span for block in blocks for span in block.spans):
        match = _CALL.match(span)
        if match is None or match[1][:1].isupper():  # a class, a formula, a function of SQL
            continue
        signature = _signature(match[1], span, match.end(), whole=True)
        if signature is not None and signature.parameters and _all_names(signature.parameters):
            yield signature


def _signature(name: str, text: str, opening: int, *, whole: bool = False) -> Signature | None:
    """The signature whose parameters begin at ``opening``; ``whole``: nothing else may follow in the text."""
    end = balanced(text, opening)
    if end is None or not _usable(name):
        return None
    parameters = " ".join(text[opening + 1 : end - 1].split()).removesuffix(",")
    returns = _RETURNS.match(text, end)
    if whole and text[returns.end() if returns else end :].strip(" :"):
        return None
    if parsed(f"def f({parameters}): pass") is None or re.match(r"(?:self|cls)\b", parameters):  # a method
        return None
    said = returns[1].strip() if returns else None
    if said is not None and parsed(f"def f() -> {said}: pass") is None:
        said = None
    return Signature(name=name, parameters=parameters, returns=said)


def _all_names(parameters: str) -> bool:
    """Whether the text can only be a definition's: a call's literals do not parse as parameters, but a keyword
    argument does, so that one with a literal needs a plain name beside it."""
    return not re.fullmatch(r"\w+\s*=\s*[^,]+", parameters) or ":" in parameters


def _usable(name: str) -> bool:
    return not keyword.iskeyword(name) and not hasattr(builtins, name) and not name.startswith("__")


def _called(blocks: Sequence[Block]) -> Iterator[str]:
    """Names of functions that a span, or a line of code, calls with literal arguments."""
    for block in blocks:
        lines = [block.text] if block.kind == "code" or ">>>" in block.text else block.spans
        for text in lines:
            for match in _SHOWN.finditer(text):
                end = balanced(text, match.end() - 1)
                if end is not None and _usable(match[1]) and call_in_normal_form(text[match.start(1) : end], match[1]):
                    yield match[1]
