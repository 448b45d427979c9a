"""Which tests enter the suite. Pure: whoever holds a sandbox and a tester hands in what was seen.

A test is admitted if it parses, has a name and a content of its own, asserts something that can be reached, fails on
the untouched environment (guards excepted), answers alike in three runs there, and is not contradicted by
another test. What is dropped is kept with its reason."""

import ast
from collections.abc import Mapping, Sequence

from hc_ray.domain.suite import Cell, GateVerdict, SelfTest
from hc_ray.domain.value import Value
from hc_ray.selftests import file_tester
from hc_ray.selftests.runner import PROPERTIES
from hc_ray.spec.calls import call_in_normal_form

STABLE_RUNS = 3


class Gated(Value):
    """What came out of the gate."""

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


def run_through(tests: Sequence[SelfTest], runs: Sequence[Sequence[Cell]]) -> Gated:
    """What the untouched environment says (each test run three times there): stable, and not passed already."""
    admitted: list[SelfTest] = []
    dropped: list[tuple[SelfTest, str]] = []
    for test, cells in zip(tests, runs, strict=True):
        seen = {(cell.outcome, cell.observed) for cell in cells}
        if len(seen) > 1:
            dropped.append((test, "unstable: it answered differently in repeated runs"))
        elif cells[0].outcome == "skipped":
            dropped.append((test, f"cannot run here: {cells[0].detail}"))
        elif cells[0].outcome == "pass" and not test.guard:
            dropped.append((test, "passes on the untouched environment"))
        else:
            admitted.append(test)
    return _gated(admitted, dropped)


def against_trivial(tests: Sequence[SelfTest], rows: Mapping[str, Sequence[Cell]]) -> tuple[Gated, str]:
    """What candidates that know nothing say of the tests (``rows``: ``empty``, ``constant``, ``hard-coded`` → cells),
    and a line on the whole. Answers and refusals are the instruction's own and stay. Of properties, behaviour that an
    empty file has is no test, and a test against hard-coded answers must fail a hard-coded one; what else such a
    candidate passes (a file that exists, that parses) is reported and does not discriminate."""
    admitted: list[SelfTest] = []
    dropped: list[tuple[SelfTest, str]] = []
    weak: dict[str, str] = {}
    for i, test in enumerate(tests):
        passed = [name for name, cells in rows.items() if cells[i].outcome == "pass"]
        if test.expectation.kind != "property" or test.guard or not passed:
            admitted.append(test)
        elif "empty" in passed and test.subject.kind != "file":
            dropped.append((test, "an empty file passes it"))
        elif test.category == "anti_cheat" and "hard-coded" in passed:
            dropped.append((test, "hard-coded examples pass it"))
        else:
            weak[test.id] = f"does not discriminate: the {passed[0]} candidate passes it"
            admitted.append(test.model_copy(update={"discriminates": False}))
    told = []
    for name, cells in rows.items():
        judged = [
            cell.outcome == "pass"
            for test, cell in zip(tests, cells, strict=True)
            if test.expectation.kind != "unknown"
        ]
        told.append(f"{name} passes {sum(judged)} of {len(judged)} judging tests")
    return _gated(admitted, dropped, weak), ("Trivial candidates: " + "; ".join(told) + "." if told else "")


def joined(first: Gated, second: Gated) -> Gated:
    """The second gate after the first: what it admitted, and all that either dropped."""
    gone = {verdict.id: verdict for verdict in second.verdicts if not verdict.admitted or verdict.reason != "admitted"}
    verdicts = tuple(gone.get(verdict.id, verdict) if verdict.admitted else verdict for verdict in first.verdicts)
    return Gated(admitted=second.admitted, dropped=(*first.dropped, *second.dropped), verdicts=verdicts)


def _gated(
    admitted: Sequence[SelfTest], dropped: Sequence[tuple[SelfTest, str]], weak: Mapping[str, str] = {}
) -> Gated:
    verdicts = [
        GateVerdict(id=test.id, admitted=True, reason=weak.get(test.id, "admitted")) for test in admitted
    ]  # fmt: skip
    verdicts += [GateVerdict(id=test.id, admitted=False, reason=reason) for test, reason in dropped]
    return Gated(admitted=tuple(admitted), dropped=tuple(test for test, _ in dropped), verdicts=tuple(verdicts))
