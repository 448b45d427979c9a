"""How an answer of the style ``loop`` is read: fenced blocks, native tool calls, and what a model thought aloud."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hc_ray.agent.actions import (
    TOOLS,
    Action,
    describe,
    functions,
    not_actions,
    read_actions,
    read_calls,
    replacements,
    spoken,
)
from hc_ray.domain.prompt import Malformed, ToolCall

HUNK = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n"


def fenced(info, body, mark="```"):
    return f"{mark}{info}\n{body}{mark}\n"


def calls(*pairs):
    return tuple(
        ToolCall(id=f"{i}", name=name, arguments=given if isinstance(given, str) else json.dumps(given))
        for i, (name, given) in enumerate(pairs)
    )


def test_the_blocks_of_an_answer_are_its_actions_in_order_and_all_else_is_talk():
    text = "\n".join(
        ("I look.", fenced("bash", "ls\n"), fenced("python", "print(1)\n"), fenced("", "no name\n"),
         fenced("write 'src/a.md'", "# x\n```sh\nls\n```\n", "````"), fenced("text", "x\n"),
         fenced("edit a.py", HUNK), fenced("submit", ""))
    )  # fmt: skip
    assert read_actions(text) == (
        Action(name="sh", body="ls\n"), Action(name="write", argument="src/a.md", body="# x\n```sh\nls\n```\n"),
        Action(name="edit", argument="a.py", body=HUNK), Action(name="submit"),
    )  # fmt: skip
    assert [block.info for block in not_actions(text)] == ["python", "text"]
    assert read_actions("All is done.\n" + fenced("c", "int x;\n")) == ()
    assert read_actions("So:\n```submit\n") == (Action(name="submit"),), (
        "the end holds nothing, so its fence may stay open"
    )


def test_fences_within_a_file_are_its_text_and_a_block_that_lacks_its_end_swallows_no_action_unseen():
    page = "# Use\n\n```sh\nls\n```\n\n```json\n{}\n```\n"
    read = read_actions(fenced("write a.md", page) + fenced("sh", "pwd\n"))
    assert read == (Action(name="write", argument="a.md", body=page), Action(name="sh", body="pwd\n"))
    lacks = read_actions("```write a.py\nprint(1)\n\n" + fenced("sh", "python3 a.py\n"))
    assert isinstance(lacks, Malformed) and "`write a.py` is not closed, or holds fences" in lacks.reason
    twice = read_actions(fenced("sh", "ls\n") + "```\nThen:\n" + fenced("write a.py", "1\n"))
    assert isinstance(twice, Malformed) and "the block `write a.py` stands within another" in twice.reason
    assert read_actions(fenced("sh", "ls\n") + "```\n") == (Action(name="sh", body="ls\n"),)


@pytest.mark.parametrize(("info", "seconds"), [
    ("sh", None), ("sh timeout=300", 300.0), ("bash timeout=2.5s", 2.5), ("sh {timeout=9}", 9.0), ("SH timeout 7", 7.0),
    ("sh timeout=soon", None),
])  # fmt: skip
def test_a_command_may_ask_for_a_time_limit(info, seconds):
    assert read_actions(fenced(info, "ls\n")) == (Action(name="sh", body="ls\n", seconds=seconds),)


@pytest.mark.parametrize("timeout", ["soon", True, None, [1], -1, 10**400])
def test_a_time_limit_that_cannot_be_meant_is_none(timeout):
    assert read_calls(calls(("sh", {"command": "ls", "timeout": timeout}))) == (Action(name="sh", body="ls"),)


def test_an_answer_with_the_line_ends_of_another_system_is_read_alike():
    text = "So:\n" + fenced("sh", "ls\npwd\n") + fenced("write a", "x\n")
    assert read_actions(text.replace("\n", "\r\n")) == read_actions(text)
    kept = read_actions(fenced("write a", "x\r\ny\r\n"))
    assert kept == (Action(name="write", argument="a", body="x\r\ny\r\n"),), "the file's own line ends stay"


@pytest.mark.parametrize(("text", "says"), [
    ("```sh\nls\n```\n```write a\nx\n", "not closed"), (fenced("write", "x\n"), "names one file"),
    (fenced("edit a b", HUNK), "names one file"), (fenced("edit a", "old\nnew\n"), "SEARCH"),
    (fenced("edit a", HUNK.replace("=======\n", "")), "="), (fenced("write a", "x\0\n"), "cannot be used"),
    (fenced("write " + "a" * 1001, ""), "cannot be used"),
])  # fmt: skip
def test_a_block_that_cannot_be_done_is_told_and_nothing_of_the_answer_runs(text, says):
    found = read_actions(text)
    assert isinstance(found, Malformed) and says in found.reason


def test_an_edit_holds_several_passages_and_may_remove_text():
    assert replacements(HUNK + "\n" + HUNK.replace("new\n", "")) == (("old\n", "new\n"), ("old\n", ""))
    assert replacements(HUNK.rstrip("\n")) == (("old\n", "new\n"),)


LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=12) | st.sampled_from(
    ["```", "````", "```sh", "~~~", "<think>", "</think>", "\r", " ```"]), max_size=9)  # fmt: skip


@given(LINES)
def test_a_body_in_a_fence_longer_than_its_own_is_read_back_byte_for_byte(lines):
    body = "".join(f"{line}\n" for line in lines)
    mark = "`" * (max([2, *(len(run) for run in re.findall("`+", body))]) + 1)
    answer = f"I write it.\n{fenced('write a', body, mark)}Done."
    assert spoken(answer) == answer and read_actions(answer) == (Action(name="write", argument="a", body=body),)


@given(st.text(alphabet="`~\n\r shwrite<think>/=SEARCH", max_size=80))
def test_no_answer_makes_the_reader_stumble(text):
    assert isinstance(read_actions(spoken(text)), tuple | Malformed)


@pytest.mark.parametrize("thought", ["<think>\nI could run\n```sh\nrm x\n```\n</think>", "<thinking>no</thinking>",
                                     "I could run\n```sh\nrm x\n```\nbut no.\n</think>"])  # fmt: skip
def test_what_was_thought_aloud_is_no_action(thought):
    said = "I look.\n" + fenced("sh", "ls\n")
    assert spoken(f"{thought}\n{said}") == said.strip() and spoken("<think>and so on and on") == ""


@pytest.mark.parametrize(("name", "arguments"), [
    ("run", {"command": "ls"}), ("sh", "{"), ("sh", "[1]"), ("sh", {}), ("sh", {"command": ["ls"]}),
    ("write", {"path": "a"}), ("edit", {"path": "a", "replacements": "x"}), ("sh", "[" * 10_000),
    ("write", {"path": "a", "content": "x\0"}), ("sh", '{"command": "\\ud800"}'),
])  # fmt: skip
def test_a_native_call_that_cannot_be_done_is_told(name: str, arguments: object) -> None:
    assert isinstance(read_calls(calls((name, arguments))), Malformed)


def test_what_models_are_told_of_the_actions_is_what_is_read():
    assert [one["function"]["name"] for one in functions()] == [one.name for one in TOOLS]
    for one, told in zip(TOOLS, functions(), strict=True):
        assert f"`{one.fence}`" in describe() and one.says in describe()
        full = {name: HUNK if kind == "string" else 3 for name, (kind, _) in one.parameters.items()}
        assert isinstance(read_calls(calls((one.name, full))), tuple)
        for required in told["function"]["parameters"]["required"]:
            rest = {name: value for name, value in full.items() if name != required}
            assert isinstance(read_calls(calls((one.name, rest))), Malformed)
