"""What the translator does not carry over it refuses, and says so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.solve.to_c import Untranslatable, program


def _refused(source: str, taken: tuple[str, ...] = ("text",)) -> str:
    with pytest.raises(Untranslatable) as caught:
        program(source, name="f", parameters=taken)
    assert caught.value.reason == str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return re.findall('a', text)", "re.findall() (line 2)"),
        ("return json.dumps(text)", "json.dumps() (line 2)"),
        ("return math.log(2)", "math.log() (line 2)"),
        ("return numpy.array(text)", "the name 'numpy' (line 2)"),
        ("return open(text).read()", "open() (line 2)"),
        ("return eval(text)", "eval() (line 2)"),
        ("return text.encode()", "the method encode() (line 2)"),
        ("return text.spam", "the attribute 'spam' (line 2)"),
        ("return spam(text)", "spam() (line 2)"),
        ("return type(text)", "type() (line 2)"),
        ("return text is 'a'", "is (line 2)"),
        ("return 99999999999999999999", "an integer of more than 64 bits (line 2)"),
        ("return 2j", "a constant of the type complex (line 2)"),
        ("return b'a'", "a constant of the type bytes (line 2)"),
        ("return text @ 2", "the operator MatMult (line 2)"),
        ("return '%(a)s' % text", "such a % format (line 2)"),
        ("return '{0.a}'.format(text)", "such a format (line 2)"),
        ("x = (c for c in text)\n    return x", "a generator expression here (line 2)"),
        ("yield text", "yield (line 2)"),
        ("with text as x:\n        return x", "with (line 2)"),
        ("class A:\n        pass\n    return A", "classdef (line 2)"),
        ("global g\n    g = 1\n    return g", "global (line 2)"),
        ("try:\n        return 1\n    finally:\n        print(text)", "finally (line 2)"),
        ("try:\n        return 1\n    except OSError:\n        return 2", "except of such an error (line 4)"),
        ("raise OSError(text)", "raise of such an error (line 2)"),
        ("match text:\n        case 'a':\n            return 1", "match (line 2)"),
        ("text.x = 1", "such a target (line 2)"),
        ("import numpy\n    return numpy.pi", "import of numpy (line 2)"),
        ("def g(*a):\n        return a\n    return g(text)", "starred parameters (line 2)"),
        ("def g(a=[]):\n        return a\n    return g(text)", "a default value that is no constant (line 2)"),
        ("return sorted(text, cmp=1)", "sorted(cmp=…) (line 2)"),
        ("return frozenset(text)", "frozenset() (line 2)"),
        ("return 'a\\0b'", "such a text (line 2)"),
        ("return max(text, default=1, spam=2)", "such arguments of max() or min() (line 2)"),
    ],
)
def test_a_construct_is_named(body: str, reason: str) -> None:
    assert _refused(f"def f(text):\n    {body}\n") == reason


@pytest.mark.parametrize(
    ("source", "taken", "reason"),
    [
        ("", ("text",), "no function f"),
        ("def g(text):\n    return text\n", ("text",), "no function f"),
        ("def f(text:\n", ("text",), "no Python"),
        ("def f(text):\n\treturn 1\n        return 2\n", ("text",), "no Python"),
        ("def f(text):\n    return 1\n\0", ("text",), "no Python"),
        ("def f(a):\n    break\n", ("text",), "no Python"),
        ("LIMIT = 3\ndef f(a):\n    return LIMIT\n", ("text",), "assign outside of functions (line 1)"),
        ("def f():\n    return 1\n", ("text",), "fewer parameters than there is to give (line 1)"),
        ("def f(a, b):\n    return 1\n", ("text",), "more parameters than there is to give (line 1)"),
        ("def f(*a):\n    return 1\n", ("text",), "starred parameters (line 1)"),
        ("import functools\n@functools.cache\ndef f(a):\n    return 1\n", ("text",), "a decorator (line 3)"),
        ("def g(a, b):\n    return a\ndef f(text):\n    return g(text)\n", ("text",), "such a call of g() (line 4)"),
        ("async def f(text):\n    return 1\n", ("text",), "asyncfunctiondef outside of functions (line 1)"),
        (f"def f(text):\n    return {'-' * 5000}1\n", ("text",), "too deeply nested"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(source: str, taken: tuple[str, ...], reason: str) -> None:
    seen = _refused(source, taken)
    assert seen == reason or (reason, seen) == ("too deeply nested", "no Python")


def test_what_is_not_called_is_not_looked_at() -> None:
    source = "import re\ndef g(text):\n    return re.sub('a', 'b', text)\ndef f(text):\n    return text\n"
    assert "py_input_whole" in program(source, name="f", parameters=["text"])


def _answers(source: str) -> None:
    try:
        assert program(source, name="f", parameters=["text"]).startswith("/*")
    except Untranslatable as refused:
        assert refused.reason


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_translated_or_refused(text: str) -> None:
    _answers(text)
    _answers(f"def f(text):\n    return {text}\n")


_WORDS = """
( ) [ ] { } : , . = += == < and or not in is lambda for if else while try except def return raise
del print f"{ } " 'a' text x y 1 2.5 * ** % / - len max sorted str int None self import global
nonlocal yield await async class with as from := @ -> ... ; ~ & | ^ >> split join format key= sys
sys.argv sys.stdin math.pi Counter
"""
_PIECES = st.lists(
    st.one_of(st.sampled_from(_WORDS.split()), st.sampled_from(["\n", "\n    ", "\n        "])), max_size=25
).map(" ".join)


@settings(max_examples=300)
@given(_PIECES)
def test_any_words_of_python_are_translated_or_refused(text: str) -> None:
    _answers(f"def f(text):\n    {text}\n")
    _answers(f"def f(text):\n    x = y = [1]\n    return ({text})\n")
