"""The gate's static steps (``writer`` has those that run tests). First: a test must parse, have a unique name and
unique content, contain a reachable assertion, and not be contradicted by another test. Last: the limits on the number
of tests. Dropped tests are kept with the reason."""

import ast
from collections import Counter
from collections.abc import Sequence

from hc_ray.domain.config import TestgenConfig
from hc_ray.domain.suite import SelfTest
from hc_ray.selftests import file_tester
from hc_ray.selftests.runner import PROPERTIES
from hc_ray.spec.calls import call_in_normal_form

STABLE_RUNS = 3


def fault_of(test: SelfTest) -> str | None:
    """Why a test cannot be run or asserts nothing; None if it is sound."""
    expectation = test.expectation
    if test.subject.kind == "call":
        if not test.subject.function or call_in_normal_form(test.input, test.subject.function) is None:
            return "does not parse: its input is no call of the function"
    elif test.subject.kind == "check":
        if (fault := file_tester.fault_of(test)) is not None:
            return fault
    elif "\0" in test.input or "\0" in test.stdin:
        return "does not parse: its input holds a null byte"
    if expectation.kind == "property" and expectation.name not in PROPERTIES.get(test.subject.kind, ()):
        return f"asserts nothing: a {test.subject.kind} has no property {expectation.name!r}"
    if expectation.kind == "value" and test.subject.kind == "call":
        try:
            ast.literal_eval(expectation.value)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return "asserts nothing: what it expects is no literal"
    return None


def content_of(test: SelfTest) -> tuple[str, ...]:
    """The content of a test: equal for duplicates."""
    subject = (test.subject.kind, test.subject.path, test.subject.function or "")
    return (*subject, test.input, test.stdin, test.expectation.model_dump_json())


def input_of(test: SelfTest) -> tuple[str, ...]:
    return content_of(test)[:-1]


def screen(tests: Sequence[SelfTest]) -> tuple[tuple[SelfTest, ...], dict[str, str]]:
    """Check what needs no run: parses, asserts, unique name, unique content, one expectation per input. Returns the
    admitted tests, and the reason for each test by id."""
    admitted: list[SelfTest] = []
    reasons: dict[str, str] = {}
    names: set[str] = set()
    contents: set[tuple[str, ...]] = set()
    stated: dict[tuple[str, ...], str] = {}
    for test in tests:
        fault = fault_of(test)
        if fault is None and test.id in names:
            fault = "another test has the same name"
        if fault is None and content_of(test) in contents:
            fault = "it duplicates another test"
        answered = (one for one in admitted if one.expectation.kind != "property" and input_of(one) == input_of(test))
        if fault is None and test.expectation.kind == "unknown" and any(answered):
            fault = "another test already expects an answer for this input"
        if fault is None and test.expectation.kind in ("value", "rejected"):
            other = stated.setdefault(input_of(test), test.id)
            fault = f"contradicts {other}" if other != test.id else None
        reasons[test.id] = fault or "admitted"
        if fault is None:
            names.add(test.id)
            contents.add(content_of(test))
            admitted.append(test)
    return tuple(admitted), reasons


def capped(tests: Sequence[SelfTest], config: TestgenConfig) -> tuple[tuple[SelfTest, ...], dict[str, str]]:
    """Limit the number of tests per category and in total, keeping stated and judging ones first. Also returns why the
    others are left out."""
    ranked = sorted(range(len(tests)), key=lambda i: (tests[i].expectation.kind == "unknown", -tests[i].confidence, i))
    counts: Counter[str] = Counter()
    kept: set[int] = set()
    beyond: dict[str, str] = {}
    for i in ranked:
        category = tests[i].category
        if counts[category] >= config.tests_per_category_max:
            beyond[tests[i].id] = f"beyond {config.tests_per_category_max} tests of {category}"
        elif len(kept) >= config.total_max:
            beyond[tests[i].id] = f"beyond {config.total_max} tests in all"
        else:
            counts[category] += 1
            kept.add(i)
    return tuple(test for i, test in enumerate(tests) if i in kept), beyond
