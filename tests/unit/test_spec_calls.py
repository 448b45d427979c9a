import pytest

from hc_ray.domain.task import Environment
from hc_ray.spec.calls import call_in_normal_form, find_calls
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Signature

F = "```"


def calls(text: str) -> list[tuple[str, str | None, bool]]:
    return [(one.call, one.expected, one.rejected) for one in read_spec(text, Environment()).calls]


def signatures(text: str) -> list[Signature]:
    return list(read_spec(text, Environment()).signatures)


@pytest.mark.parametrize(("text", "call", "expected", "rejected"), [
    ("assert f(1, 2) == 3", "f(1, 2)", "3", False),
    ("`f([1])` returns `[2]`.", "f([1])", "[2]", False),
    (">>> f('a')\n'b'", "f('a')", "'b'", False),
    (">>> f('a')\nTraceback (most recent call last):", "f('a')", None, True),
    ("f(3) -> 4. Then more", "f(3)", "4", False),
    ("`f(2)` → `[1, 2]`", "f(2)", "[1, 2]", False),
    ("f(2)  # 3", "f(2)", "3", False),
    ("f(1) is 2.5, always", "f(1)", "2.5", False),
    ("f(1) should be True, f(2) not", "f(1)", "True", False),
    ("f(1) gives:\n```\n[1,\n 2]\n```", "f(1)", "[1, 2]", False),
    ("f(-1) raises ValueError", "f(-1)", None, True),
    ("assert f(1)", "f(1)", None, False),
    ("assert not f(1)", "f(1)", None, False),
    ("f(1, f(2)) == 3", "f(1, f(2))", "3", False),
    ('f("it\'s (1)") == 3', 'f("it\'s (1)")', "3", False),
    ("| `f(2)` | `4` |", "f(2)", "4", False),
])  # fmt: skip
def test_a_call_is_found_with_what_the_text_shows_of_it(text, call, expected, rejected):
    found = next(iter(find_calls(text, "f").values()))
    assert (found.call, found.expected, found.rejected) == (call, expected, rejected)


@pytest.mark.parametrize("text", [
    "f(x)", "f(open('a'))", "f(__import__('os'))", "g.f(1)", "f(1", "f(lambda: 1)", "f(10**99)", "f('a' * 10000000)",
    f"f({'-' * 390}1)",
])  # fmt: skip
def test_a_call_with_names_or_dangers_or_too_deep_to_be_written_again_is_none(text):
    assert not find_calls(text, "f")


@pytest.mark.parametrize(
    "text",
    ["f(2) is 4 times f(1)", "f(2) returns 4 or more", "f(2) == 3 + 1", "2 * f(2) == 4", "f(2) is not 3",
     "f(2) == [1, 2, ...]", "f(2) returns 5 instead of 4", "f(2) returns a list"],
)  # fmt: skip
def test_what_is_a_part_of_something_longer_is_no_value(text):
    assert all(one.expected is None and not one.rejected for one in find_calls(text, "f").values())


def test_a_function_is_known_by_a_call_with_a_value_alone_and_literals_are_read_in_normal_form():
    text = "Fix it, so that `slug('A B')` returns `'a-b'`; `trim(' a')` and `print(1)` and `x.low('A')` stay."
    assert calls(text) == [("slug('A B')", "'a-b'", False)]
    assert signatures(text) == [Signature(name="slug", parameters=None)]
    assert signatures(text)[0].head == "def slug("
    assert call_in_normal_form('f( "a" )', "f") == "f('a')" and call_in_normal_form("f(a)", "f") is None


def test_each_call_is_told_once_with_its_value_and_definitions_and_statements_are_none():
    assert calls("Write `f(x)`. Call `f(2)`. `f(2)` returns `3`; `f(2)` == 3.") == [("f(2)", "3", False)]
    two = "Write `f(x)`. Today `f(2)` returns `5`. `f(2)` must stay an int: `f(2)` == 4. `f(-1)` raises `ValueError`."
    assert calls(two) == [("f(2)", None, False), ("f(-1)", None, True)]
    assert calls(f"{F}python\ndef f():\n    return 1\n\nf()\n{F}") == []
    assert calls("Define `def f():`. `f()` returns `1`.") == [("f()", "1", False)]


@pytest.mark.parametrize(("text", "name", "parameters", "returns"), [
    ("In `m.py`, define `f(a, b=2) -> int` that adds.", "f", "a, b=2", "int"),
    ("In `m.py`, define `f(a: str, b: int = 2)`.", "f", "a: str, b: int = 2", None),
    (f"{F}python\ndef f(a: str, *rest) -> list[str]:\n    ...\n{F}\n", "f", "a: str, *rest", "list[str]"),
    (f"{F}python\ndef f(\n    a: str,\n    b: int,\n) -> None:\n    ...\n{F}\n", "f", "a: str, b: int", "None"),
    ("The header is `def f():`.", "f", "", None),
])  # fmt: skip
def test_a_signature_is_read_in_every_spelling(text, name, parameters, returns):
    (signature,) = signatures(text)
    assert (signature.name, signature.parameters, signature.returns) == (name, parameters, returns)


def test_several_functions_keep_their_order_and_parameters_theirs_and_methods_are_none():
    text = "Implement `pack(s)` and `unpack(s)` in `p.py`. Use `len(s)` and `print(s)` as you like."
    text += f"\n{F}python\nclass A:\n    def f(self, a):\n        pass\n\ndef g(a):\n    pass\n{F}"
    assert [signature.name for signature in signatures(text)] == ["pack", "unpack", "g"]
    (signature,) = signatures("Define `f(a, /, b: int = 2, *more, c, **rest)` in `m.py`.")
    assert signature.head == "def f(a, /, b: int = 2, *more, c, **rest):"


@pytest.mark.parametrize(
    "span", ["x.f(a)", "f(2)", "f('a')", "f()", "O(n)", "COUNT(id)", "Cache(size)", "if(a)", "f(a"]
)
def test_a_span_that_is_no_definition_gives_no_signature(span):
    assert signatures(f"Look at `{span}` here.") == []
