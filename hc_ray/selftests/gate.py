"""The gate's first look, which runs nothing (``writer`` has the steps that do): a test must parse, have a name and a
content of its own, assert something that can be reached, and not be contradicted by another test. What is dropped is
kept with its reason."""

import ast
from collections.abc import Sequence

from hc_ray.domain.suite import GateVerdict, SelfTest
from hc_ray.domain.value import Value
from hc_ray.selftests import file_tester
from hc_ray.selftests.runner import PROPERTIES
from hc_ray.spec.calls import call_in_normal_form

STABLE_RUNS = 3


class Gated(Value):
    """What came of it."""

    admitted: tuple[SelfTest, ...]
    dropped: tuple[SelfTest, ...]
    verdicts: tuple[GateVerdict, ...]


def fault_of(test: SelfTest) -> str | None:
    """Why a test cannot be run or asserts nothing; None when it can and does."""
    expectation = test.expectation
    if test.subject.kind == "call":
        if not test.subject.function or call_in_normal_form(test.input, test.subject.function) is None:
            return "does not parse: its input is no call of the function"
    elif test.subject.kind == "check":
        if (fault := file_tester.fault_of(test)) is not None:
            return fault
    elif "\0" in test.input or "\0" in test.stdin:
        return "does not parse: its input holds a null byte"
    if expectation.kind == "property" and expectation.name not in PROPERTIES.get(test.subject.kind, {}):
        return f"asserts nothing: a {test.subject.kind} has no property {expectation.name!r}"
    if expectation.kind == "value" and test.subject.kind == "call":
        try:
            ast.literal_eval(expectation.value)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return "asserts nothing: what it expects is no literal"
    return None


def content_of(test: SelfTest) -> tuple[str, ...]:
    """What makes two tests the same."""
    subject = (test.subject.kind, test.subject.path, test.subject.function or "")
    return (*subject, test.input, test.stdin, test.expectation.model_dump_json())


def input_of(test: SelfTest) -> tuple[str, ...]:
    return content_of(test)[:-1]


def screen(tests: Sequence[SelfTest]) -> Gated:
    """What can be seen without running anything: parses, asserts, unique name, unique content, one expectation an
    input."""
    admitted: list[SelfTest] = []
    dropped: list[tuple[SelfTest, str]] = []
    names: set[str] = set()
    contents: set[tuple[str, ...]] = set()
    values: dict[tuple[str, ...], int] = {}
    for test in tests:
        fault = fault_of(test)
        if fault is None and test.id in names:
            fault = "its name is another test's"
        if fault is None and content_of(test) in contents:
            fault = "the same test stands there already"
        if fault is None and test.expectation.kind == "unknown" and _answered(test, admitted):
            fault = "another test of this input expects an answer already"
        if fault is not None:
            dropped.append((test, fault))
            continue
        names.add(test.id)
        contents.add(content_of(test))
        if test.expectation.kind in ("value", "rejected"):
            place = values.get(input_of(test))
            if place is not None:
                dropped.append((test, f"contradicts {admitted[place].id}"))
                continue
            values[input_of(test)] = len(admitted)
        admitted.append(test)
    return _gated(admitted, dropped)


def _answered(test: SelfTest, admitted: Sequence[SelfTest]) -> bool:
    return any(input_of(other) == input_of(test) and other.expectation.kind != "property" for other in admitted)


def _gated(admitted: Sequence[SelfTest], dropped: Sequence[tuple[SelfTest, str]]) -> Gated:
    verdicts = [GateVerdict(id=test.id, admitted=True, reason="admitted") for test in admitted]
    verdicts += [GateVerdict(id=test.id, admitted=False, reason=reason) for test, reason in dropped]
    return Gated(admitted=tuple(admitted), dropped=tuple(test for test, _ in dropped), verdicts=tuple(verdicts))
