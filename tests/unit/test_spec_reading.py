"""An instruction is read once into one frozen value."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.domain.task import Environment
from hc_ray.spec.calls import call_in_normal_form
from hc_ray.spec.markdown import blocks, titles
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Call, Run

F = "```"
BOATS = Environment(
    workdir="/srv/boats",
    files=("/srv/boats/boats/slots.py", "/srv/boats/tests/test_slots.py", "/srv/boats/report.sh",
           "/srv/boats/config/boats.toml", "/srv/boats/vendor/lib.py"),
)  # fmt: skip


def test_sentences_items_rows_and_code_lines_come_in_order_and_are_found_whatever_quotes_they_use():
    text = "# Head\n\nOne `a. B`\ntwo. Three, e.g. `x`! `y` is it.\n\n- item\n  goes on\n- `last`. End\n"
    text += "\n| h | i |\n|---|---|\n| 1 | 2 |\n"
    text += f"\n{F}py\nx = 1\n\n  y = 2\n{F}\n"
    assert read_spec(text, Environment()).sentences == (
        "One `a. B` two.", "Three, e.g. `x`!", "`y` is it.", "item goes on", "`last`.", "End", "h | i", "1 | 2",
        "x = 1", "y = 2",
    )  # fmt: skip
    assert read_spec("# Write `x.py`", Environment()).sentences == ("Write `x.py`",), "there is nothing else"
    spec = read_spec('Hello. Print "a b" twice.', Environment())
    for quoted in ("'a b'", "\N{LEFT DOUBLE QUOTATION MARK}a  b"):
        assert spec.sentence_with(quoted) == 'Print "a b" twice.'
    assert spec.sentence_with("nowhere") == "Hello." and read_spec("", Environment()).sentence_with("x") == ""


def test_an_instruction_falls_into_its_blocks_and_code_spans_end_at_their_backticks():
    text = f"One.\n\n{F}Py extra\n    a\n  b\n{F}\nTwo:\n\n| h | i |\n|---|---|\n| `a\\|b` | c |\n"
    text += "\n    code\n\n- x\n  - y\n\n  z\n"
    found = [(one.kind, one.text) for one in blocks(text)]
    assert found == [
        ("prose", "One."), ("code", "    a\n  b"), ("prose", "Two:"), ("table", "h | i\n`a|b` | c"), ("code", "code"),
        ("item", "x"), ("item", "y"), ("item", "z"),
    ]  # fmt: skip
    assert [one.language for one in blocks(text)][1] == "py" and blocks(text)[3].rows == (("h", "i"), ("`a|b`", "c"))
    (block,) = blocks("a `b` ``c ` d`` `e\nf` `open")
    assert block.spans == ("b", "c ` d", "e f")
    assert "".join(piece.text for piece in block.pieces if not piece.code) == "a    `open"


def test_what_only_says_what_follows_is_told_from_what_asks_by_its_form_alone():
    text = f"""**Your Task:**\n\n_Notes_\n\n**Keep the log.**\n\n**Write `a.txt`**\n\nIt has fields. Where:
- **Speed**:
  - fast\n- **No network**\n\nWrite `b.txt` with:\n\n- one line\n\nExample:\n\n{F}\nx\n{F}\n
The file must hold exactly:\n\n{F}\ny\n{F}\n\nColumns are:\n\n| h |\n|---|\n\nThe end:"""
    assert titles(blocks(text)) == {"**Your Task:**", "_Notes_", "Where:", "**Speed**:", "Example:", "Columns are:"}


_PIECES = st.sampled_from(
    ["`", "``", F, "\n", "\n\n", "- ", "1. ", "# ", "> ", "| a | b |\n", "|---|---|\n", "    ", "$ sh x.sh a", "Input:",
     "Output: `3`", "| Input | Output |\n", "f(", ")", "def f(a", " -> ", "== 3", ">>> f(1)", "assert f(2)", "/app/",
     "x.py", "<<EOF", "\\", "'", '"', "`sh x.sh 1` prints `2`", "é", "\0", "\r\n", "\u2028", "console\n", "bash\n",
     "...", "/", ".", "..", " ", "*", "~", "a.b", "//", ":", "-", "=", "(", "[", "]", "{", "}", "1,", "raises", "#"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=40).map("".join)),
       st.sampled_from([BOATS, Environment(workdir="/"), Environment(workdir="")]))  # fmt: skip
def test_arbitrary_text_is_read_without_a_crash(text: str, environment: Environment) -> None:
    spec = read_spec(text, environment)
    assert spec.instruction == text and all(isinstance(one, Call) and one.sentence for one in spec.calls)
    assert all(call_in_normal_form(one.call, one.function) == one.call for one in spec.calls)
    assert all(file.path.strip("/.") and not file.path.endswith("/") for file in spec.files)
    assert all(isinstance(one, Run) and (one.output is None or one.output.endswith("\n")) for one in spec.runs)
    assert all(one == " ".join(one.split()) and one for one in spec.sentences)
    assert all(signature.head for signature in spec.signatures)


@pytest.mark.parametrize(
    "piece",
    ["f(", "`a", "/a", "def f(((", "x.py ", "def f() -> ", "`f(x)` ", "f(1) ", "- ", "> ", "| a ", "1. a\n", "   - b\n",
     "$ ", f"{F}\n", "`` ` ", "Input: ", f"{F}\n$ a\n", f"{F}bash\ncat <<E\n{F}\n", "`./a` prints ", "[", "*", "_", ".",
     "$ a <<E\n", "/a/a.b/", "a.b/c.py ", "`./x a` prints `b` "],
)  # fmt: skip
def test_twenty_kilobytes_are_read_in_a_moment(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    began = time.process_time()
    for one in (text, f"{F}console\n$ {text}", f"{F}bash\n{text}"):
        read_spec(one, BOATS)
        titles(blocks(one))
    assert time.process_time() - began < 5
