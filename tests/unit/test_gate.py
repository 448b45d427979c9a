from hc_ray.domain.suite import ExpectedValue, Property, SelfTest, Subject, Unknown
from hc_ray.selftests import gate

F = Subject(kind="call", path="m.py", function="f")


def guess_of(identity, call, expectation, confidence=0.3):
    return SelfTest(id=identity, category="boundary", subject=F, input=call, expectation=expectation,
                    confidence=confidence)  # fmt: skip


def test_what_does_not_parse_assert_or_differ_or_contradicts_a_stated_answer_fails_the_screen():
    admitted, told = gate.screen([
        guess_of("a", "f(1)", ExpectedValue(value="1")), guess_of("a", "f(2)", ExpectedValue(value="2")),
        guess_of("b", "f(1)", ExpectedValue(value="1")), guess_of("c", "f(", ExpectedValue(value="1")),
        guess_of("d", "f(3)", ExpectedValue(value="nonsense here")), guess_of("e", "f(3)", Property(name="is_nice")),
        guess_of("g", "f(1)", Unknown()),
    ])  # fmt: skip
    assert [test.id for test in admitted] == ["a"]
    assert "name" in told.pop("a") and set(told) == {"b", "c", "d", "e", "g"}
    assert "same test" in told["b"] and "parse" in told["c"] and "literal" in told["d"] and "property" in told["e"]
    stated = guess_of("a", "f(1)", ExpectedValue(value="1"), confidence=0.9)
    admitted, told = gate.screen([stated, guess_of("b", "f(1)", ExpectedValue(value="2"))])
    assert admitted == (stated,) and "contradicts a" in told["b"]
