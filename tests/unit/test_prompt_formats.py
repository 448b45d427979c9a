from itertools import product
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hc_ray.agent import prompt_formats
from hc_ray.agent.deliverable import Deliverable, deliverable_of
from hc_ray.domain.config import Form
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.task import Copy, Environment, EnvironmentView, FileView
from hc_ray.spec.reading import read_spec

FUNCTION = "Write `f(a, b)` in `m.py`.\nCosts $5 {exactly}: keep */ and ``` as they are."
SHELL = "Write the script `run.sh`."
PROGRAM = "Write a program in `p.c`."
OUTPUT = "Write the answer to `out.json`."
SCRIPT = "Create the script `tool.py`."
MANY = "Create `a.py` with `a(x)` and `b.sh` with the call."
NONE = "Make the tests of this folder pass."
ALL = (FUNCTION, SHELL, PROGRAM, OUTPUT, SCRIPT, MANY, NONE)
FORMS: tuple[Form, ...] = get_args(Form)


def deliverable(text: str) -> Deliverable:
    return deliverable_of(read_spec(text, Environment()))


def ask(text: str, form: str = "completion", **more: object) -> Prompt:
    settings = {"plan": "plain", "hint": "", "seed": 7, "temperature": 0.3, "max_tokens": 99, "profile": Profile()}
    return prompt_formats.ask(text, deliverable(text), form=form, **{**settings, **more})  # type: ignore[arg-type]


def asked(prompt: Prompt) -> str:
    return prompt.text if prompt.text is not None else "\n".join(message.content for message in prompt.messages)


def read(answer: str, text: str, form: str = "completion", finish: str = "stop") -> dict[str, str] | Malformed:
    prompt = ask(text, form)
    return prompt_formats.read(Completion(text=answer, finish_reason=finish), prompt, deliverable(text))


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [(FUNCTION, "m.py", "function"), (SHELL, "run.sh", "shell"), (PROGRAM, "p.c", "program"), (SCRIPT, "tool.py",
     "script"), (OUTPUT, "out.json", "file"), (MANY, None, "file"), (NONE, None, "file")],
)  # fmt: skip
def test_a_file_is_known_where_the_instruction_names_exactly_one(text: str, path: str | None, kind: str) -> None:
    found = deliverable(text)
    assert (found.path, found.kind, found.exists) == (path, kind, False)


def test_a_file_that_is_there_is_to_be_changed_where_it_alone_holds_a_function_that_is_named() -> None:
    image = Environment(copies=(Copy(sources=("m.py", "n.py"), destination="/app/"),), files=("/app/m.py", "/app/n.py"))
    spec = read_spec("`f(a)` in `/app/m.py` is slow; `/app/n.py` uses it.", image)
    assert deliverable_of(spec) == Deliverable(inputs=("m.py", "n.py")), "nobody has looked yet"
    held = [FileView(path="m.py", size=9, functions=("def f(a)",)),
            FileView(path="n.py", size=9, functions=("def g()",))]  # fmt: skip
    found = deliverable_of(spec.with_snapshot(EnvironmentView(files=tuple(held))))
    assert (found.path, found.exists, found.inputs, found.kind) == ("m.py", True, ("n.py",), "function")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ALL)
def test_every_line_of_the_instruction_stands_in_the_prompt_and_every_part_changes_it(text: str, form: str) -> None:
    prompt = ask(text, form)
    assert all(line in asked(prompt) for line in text.split("\n"))
    assert form == "completion" or text in asked(prompt), "in one piece"
    assert (prompt.seed, prompt.temperature, prompt.max_tokens, prompt.role) == (7, 0.3, 99, "solver")
    prompts = [asked(ask(text, form, plan=plan)) for plan in prompt_formats.plans()]
    prompts += [asked(ask(text, form, hint="Be brief.")), asked(ask(text, form, notes="It failed.\nTwice."))]
    prompts += [asked(ask(text, form, inputs={"in.txt": "1\n2"}))]
    assert len(set(prompts)) == len(prompts) and all(f"{line}" in prompts[-1] for line in ("in.txt", "1", "2"))


def test_the_completion_form_ends_in_the_beginning_of_the_file_and_an_unknown_plan_is_refused():
    with pytest.raises(ConfigError, match="steps"):
        ask(FUNCTION, plan="step")
    ends = {FUNCTION: "def f(a, b):", SHELL: "#!/bin/sh\n", PROGRAM: "\n", OUTPUT: "```json\n", SCRIPT: "\n"}
    for text, end in ends.items():
        assert asked(ask(text)).endswith(end) and ask(text).context == ("" if end in ("\n", "```json\n") else end)
    assert "*/" not in asked(ask(PROGRAM)) and f"`{deliverable(OUTPUT).path}`:\n\n```" in asked(ask(OUTPUT))


@pytest.mark.parametrize("text", [MANY, NONE])
def test_where_no_file_is_known_the_answer_names_its_files_and_nothing_is_begun_for_it(text: str) -> None:
    for form in FORMS:
        prompt = ask(text, form)
        assert prompt.context == "" and prompt.stop == () and "path" in asked(prompt)
    assert asked(ask(text)).endswith(":\n\n"), "the answer begins on a line of its own"
    files = "`a.py`\n```python\nx = 1\n```\n\nIt is called by `lib/b.sh`:\n```sh\n#!/bin/sh\npython3 a.py\n```\n"
    for form in FORMS:
        assert read(files, text, form) == {"a.py": "x = 1\n", "lib/b.sh": "#!/bin/sh\npython3 a.py\n"}
        assert read("```sh /etc/x.conf\na\n```\n```\n# ./c.py\nb\n```\n```\nnameless\n```", text, form) == {
            "/etc/x.conf": "a\n", "c.py": "# ./c.py\nb\n",
        }  # fmt: skip


def test_a_comment_that_speaks_of_a_file_a_directive_and_an_interpreter_name_no_path() -> None:
    for first in ("#!/bin/sh", "#include <stdio.h>", "# Reads data.csv and counts.", "// see a/b.c for more"):
        assert isinstance(read(f"```\n{first}\nx\n```", NONE, "chat"), Malformed), first
    for first in ("# a/b.c", "// a/b.c", "/* a/b.c */", "# File: a/b.c"):
        assert read(f"```\n{first}\nx\n```", NONE, "chat") == {"a/b.c": f"{first}\nx\n"}


def test_the_profile_adds_stop_rules_to_functions_only() -> None:
    profile = Profile(stop={"completion": ("\ndef ", "\nprint"), "chat": ("<end>",)})
    assert {"\ndef ", "\nprint"} <= set(ask(FUNCTION, profile=profile).stop)
    assert not {"\ndef ", "\nprint"} & set(ask(SHELL, profile=profile).stop)
    assert ask(FUNCTION, "chat", profile=profile).stop == ("<end>",)
    two = "Write `m.py` with `def a(x): ...` and `def b(x): ...`."
    assert "\ndef " not in ask(two, profile=profile).stop and "\nprint" in ask(two, profile=profile).stop


_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r`~"), max_size=30)
_TEXT = st.lists(_LINE, min_size=1, max_size=8).map(lambda lines: "\n".join([*lines, "end"]) + "\n")


@given(_TEXT, st.sampled_from([(FUNCTION, "stop"), *product((SHELL, PROGRAM, OUTPUT), ("stop", "length"))]))
def test_a_fenced_file_comes_back_byte_for_byte(body: str, case: tuple[str, str]) -> None:
    text, finish = case
    for before, after in (("", ""), ("Here it is:\n\n", "\nI hope that this helps.")):
        assert read(f"{before}```\n{body}```{after}", text, "chat", finish) == {deliverable(text).path: body}


@given(_TEXT, st.sampled_from([SHELL, OUTPUT, PROGRAM]), st.sampled_from(["stop", "length"]))
def test_a_continued_file_is_its_beginning_and_the_answer_byte_for_byte(body: str, text: str, finish: str) -> None:
    assert read(body, text, finish=finish) == {deliverable(text).path: ask(text).context + body}


def test_code_is_never_unescaped_and_python_that_was_cut_is_trimmed_to_its_last_complete_statement():
    body = '    return "a\\n\\t\\"b\\\\"\n'
    assert read("\n" + body, FUNCTION) == {"m.py": "def f(a, b):\n" + body}
    assert read(f"```python\ndef f(a, b):\n{body}```", FUNCTION, "chat") == {"m.py": "def f(a, b):\n" + body}
    whole = "    c = a\n    return c\n"
    begun = "\n" + whole
    assert read(begun + "def g(x):\n    retu", FUNCTION,
                finish="length") == {"m.py": f"def f(a, b):\n{whole}def g(x):\n    retu\n"}  # fmt: skip
    assert read(begun + "x = (1,", FUNCTION, finish="length") == {"m.py": f"def f(a, b):\n{whole}"}
    chat = f"```python\ndef f(a, b):\n{whole}print(f(1"
    assert read(chat, FUNCTION, "chat", finish="length") == {"m.py": f"def f(a, b):\n{whole}"}
    prose = read("\n    return a + b\n\nThis function adds two numbers.\n", FUNCTION)
    assert prose == {"m.py": "def f(a, b):\n    return a + b\n\n"}
    assert read("```python\ndef f(a, b)\n  return\n```", FUNCTION, "chat") == {"m.py": "def f(a, b)\n  return\n"}


def test_the_block_that_is_the_file_is_taken_with_the_fences_it_holds_and_a_program_is_no_data():
    usage = "```sh\npython m.py\n```\n"
    assert read(f"{usage}m.py:\n```\nx = 1\n```\n", FUNCTION, "chat") == {"m.py": "x = 1\n"}
    assert read(f"{usage}Then:\n```python\nx = 2\n```\n", FUNCTION, "chat") == {"m.py": "x = 2\n"}
    assert read("````\n```\nx\n```\n````", OUTPUT, "chat") == {"out.json": "```\nx\n```\n"}
    assert isinstance(read("```python\nimport json\nprint(1)\n```", OUTPUT, "chat"), Malformed)
    for answer in ("```python\n[1]\n```", "```\n[1]\n```", "[1]"):
        assert read(answer, OUTPUT, "chat") == {"out.json": "[1]\n"}


@pytest.mark.parametrize(("answer", "text", "form", "finish"), [
    ("", FUNCTION, "completion", "stop"),
    ("  \n", FUNCTION, "completion", "stop"),
    ("```\n", OUTPUT, "completion", "stop"),
    ("I cannot do that.", FUNCTION, "chat", "stop"),
    ("I cannot do that.", SHELL, "chat", "stop"),
    ("```python\n```", FUNCTION, "chat", "stop"),
    ("", FUNCTION, "completion", "context"),
    ("```sh\ntrue\n```", MANY, "chat", "stop"),
    ("I cannot do that.", NONE, "completion", "stop"),
])  # fmt: skip
def test_an_answer_without_a_file_is_malformed_with_a_reason(answer: str, text: str, form: str, finish: str) -> None:
    found = read(answer, text, form, finish)
    assert isinstance(found, Malformed) and found.reason


@settings(max_examples=60)
@given(st.text(max_size=200), st.sampled_from(ALL), st.sampled_from(FORMS), st.sampled_from(["stop", "length"]))
def test_any_answer_is_read_or_malformed(answer: str, text: str, form: str, finish: str) -> None:
    found = read(answer, text, form, finish)
    if not isinstance(found, Malformed):
        assert found and all(one.strip() for one in found.values()) and deliverable(text).path in (None, *found)
