"""What programs take an argument for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.solve.argument_use import typed_by_use, used_as
from hc_ray.solve.signatures import Signature


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return len(p) >= 8", "str"),
        ("return p % 2 == 0", "int"),
        ("return p.lower()", "str"),
        ("return p >= 50", "int"),
        ("return 'Dear ' + p", "str"),
        ("return sum(p) / len(p)", "list"),
        ("return {v: k for k, v in p.items()}", "dict"),
        ("return p * 1.5", "float"),
        ("return p == 'x' or p > 3", None),
        ("return q", None),
        ("return (", None),
    ],
)
def test_the_uses_of_an_argument_tell_its_type(body: str, kind: str | None) -> None:
    assert used_as(f"def f(p, q):\n    {body}\n", "f", "p") == kind


def test_what_most_programs_take_an_untold_argument_for_stands_in_the_signature() -> None:
    signature = Signature(name="f", parameters="p, text, n: int")
    bodies = ("return len(p) > n", "return p.upper() == text", "return p % 2")
    programs = [{"f.py": f"def f(p, text, n):\n    {body}\n"} for body in bodies]
    assert typed_by_use(signature, programs).typed == "p: str, text, n: int"


def test_a_lone_program_of_several_and_a_tie_settle_nothing() -> None:
    signature = Signature(name="f", parameters="p")
    one, other = {"f.py": "def f(p):\n    return p % 2\n"}, {"f.py": "def f(p):\n    return p.lower()\n"}
    silent = {"f.py": "def f(p):\n    return 1\n"}
    assert typed_by_use(signature, [one, silent]).typed == "p"
    assert typed_by_use(signature, [one, other]).typed == "p"
    assert typed_by_use(signature, [one]).typed == "p: int"
    assert typed_by_use(Signature(name="f", parameters=None), [one]).parameters is None


@given(st.text(alphabet="defp():\n return.len%2", max_size=80))
def test_arbitrary_programs_raise_nothing(text: str) -> None:
    used_as(text, "f", "p")
