from hc_ray.domain.suite import Cell, ExpectedValue, Property, SelfTest, Subject, Unknown
from hc_ray.selftests import gate

F = Subject(kind="call", path="m.py", function="f")


def of(identity, call, **more):
    fields = {"category": "boundary", "subject": F, "expectation": Unknown(), "confidence": 0.4, **more}
    return SelfTest.model_validate({"id": identity, "input": call, **fields})


def guess_of(identity, call, expectation, confidence=0.3, **more):
    return of(identity, call, expectation=expectation, confidence=confidence, **more)


def cells(marks):
    outcomes = {"+": "pass", "-": "fail", "e": "error"}
    return [Cell(outcome=outcomes[mark]) for mark in marks]


def reasons(gated):
    return {verdict.id: verdict.reason for verdict in gated.verdicts if verdict.reason != "admitted"}


def test_what_does_not_parse_assert_or_differ_or_contradicts_a_stated_answer_fails_the_screen():
    gated = gate.screen([
        guess_of("a", "f(1)", ExpectedValue(value="1")), guess_of("a", "f(2)", ExpectedValue(value="2")),
        guess_of("b", "f(1)", ExpectedValue(value="1")), guess_of("c", "f(", ExpectedValue(value="1")),
        guess_of("d", "f(3)", ExpectedValue(value="nonsense here")), guess_of("e", "f(3)", Property(name="is_nice")),
        guess_of("g", "f(1)", Unknown()),
    ])  # fmt: skip
    assert [test.id for test in gated.admitted] == ["a"]
    told = reasons(gated)
    assert "name" in told.pop("a") and set(told) == {"b", "c", "d", "e", "g"}
    assert "same test" in told["b"] and "parse" in told["c"] and "literal" in told["d"] and "property" in told["e"]
    assert len(gated.dropped) == 6
    stated = guess_of("a", "f(1)", ExpectedValue(value="1"), confidence=0.9)
    gated = gate.screen([stated, guess_of("b", "f(1)", ExpectedValue(value="2"))])
    assert gated.admitted == (stated,) and "contradicts a" in reasons(gated)["b"]


def test_the_untouched_environment_drops_what_passes_there_but_keeps_guards():
    tests = [guess_of("a", "f(1)", Unknown()), guess_of("b", "f(2)", Unknown()),
             guess_of("c", "f(3)", Unknown(), guard=True), guess_of("d", "f(4)", Unknown())]  # fmt: skip
    passed, failed = Cell(outcome="pass", observed="1"), Cell(outcome="error")
    runs = [[passed] * 3, [failed] * 3, [passed] * 3, [failed, failed, passed]]
    gated = gate.run_through(tests, runs)
    assert [test.id for test in gated.admitted] == ["b", "c"]
    assert "untouched" in reasons(gated)["a"] and "unstable" in reasons(gated)["d"]


def test_what_a_candidate_that_knows_nothing_passes_is_dropped_or_does_not_discriminate():
    tests = [
        of("same", "f(1)", expectation=Property(name="deterministic")),
        of("stated", "f(4)", expectation=ExpectedValue(value="8"), confidence=0.9),
        of("cheat", "f(4)", expectation=Property(name="not_none"), category="anti_cheat"),
        of("type", "f(1)", expectation=Property(name="type", argument="int"), category="format"),
        of("file", "", subject=Subject(kind="file", path="m.py"), expectation=Property(name="utf8")),
        of("input", "f(3)"),
    ]
    rows = {"empty": cells("+---+-"), "constant": cells("++++++"), "hard-coded": cells("+++--+")}
    gated, told = gate.against_trivial(tests, rows)
    assert [test.id for test in gated.dropped] == ["same", "cheat"]
    able = {test.id: test.discriminates for test in gated.admitted}
    assert able == {"stated": True, "type": False, "file": False, "input": True}
    assert "hard-coded" in reasons(gated)["cheat"] and "constant candidate passes it" in reasons(gated)["type"]
    assert "hard-coded passes 3 of 5" in told
