"""Prompts for tests of a category, and the parser of answers: two pure functions.

A tiny model continues ``assert name(`` sensibly but fills a JSON schema with nonsense, so the profile decides the form;
code is never requested inside JSON. Only calls that parse become tests, and only their inputs count: such a model
predicts answers poorly, so its expectations never judge."""

import re
from collections.abc import Sequence

from hc_ray.agent.prompt_templates import template
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.suite import Category, SelfTest, Unknown
from hc_ray.selftests.inputs import fits
from hc_ray.selftests.shown_examples import Target, calls_of, test_of, usages
from hc_ray.spec.calls import find_calls
from hc_ray.spec.spec import Spec

ASKED: tuple[Category, ...] = ("happy_path", "boundary", "edge_case", "invalid_input")
"""The categories that a model is asked for; the others follow from the instruction."""

_WORDS: dict[Category, str] = {
    "happy_path": "ordinary inputs",
    "boundary": "the smallest and largest inputs",
    "edge_case": "unusual inputs",
    "invalid_input": "invalid inputs",
}
_STEPS = (0.0, -0.2, 0.2)
_STOP = ("\n\n\n", "\ndef ", "\nclass ", "\nif ", "\nfor ", "\nprint(", "```")
_ANSWER_TOKENS = 96


def applies(category: Category, spec: Spec, targets: Sequence[Target]) -> str | None:
    """Why a model is not asked for tests of a category; None if it is."""
    if category not in ASKED:
        return "it follows from the instruction's examples"
    if not any(target.kind != "file" for target in targets):
        return "nothing that takes an input is known beforehand"
    if category == "invalid_input" and not any(call.rejected for call in spec.calls):
        return "the instruction shows no input that is refused"
    return None


def temperature(middle: float, place: int) -> float:
    """The temperature of a round's ``place``-th prompt: cycles through the configured one, one below and one above."""
    return round(min(2.0, max(0.0, middle + _STEPS[place % len(_STEPS)])), 2)


def ask(
    spec: Spec,
    target: Target,
    category: Category,
    *,
    profile: Profile,
    known: Sequence[SelfTest] = (),
    reflection: str = "",
    count: int = 4,
    seed: int,
    temperature: float,
    workspace: str = "",
) -> Prompt:
    """The prompt for tests of one category, with the whole instruction. A few ``known`` tests are shown to get
    different ones; ``reflection``: what the last round left uncovered; ``workspace``: contents of files, with cuts
    marked."""
    chat = profile.test_form == "chat"
    asked = spec.instruction.strip() + (f"\n\n{workspace}" if workspace else "")
    told = [f"# {reflection}"] if reflection and not chat else [reflection] if reflection else []
    calls = target.kind == "call"
    shown = [test.input for test in known if test.input][-2:]
    if calls:
        told += [f"assert {call}" for call in shown] if chat else []
        name, start = ("test_chat" if chat else "test_completion"), f"assert {target.function}("
    else:
        told += shown
        name, start = ("test_input_chat" if chat else "test_input_completion"), _line_start(target)
    text = template(name).format(
        instruction=asked if chat else commented(asked),
        module=re.sub(r"\W", "_", target.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]),
        function=target.function,
        words=_WORDS.get(category, "various inputs"),
        count=count,
        what="its standard input" if reads_stdin(spec, target) else "its arguments",
        known="".join(f"{line}\n" for line in told),
        start=start,
    )
    return Prompt(
        role="tester",
        purpose=f"test.{category}",
        messages=(Message(role="user", content=text.strip()),) if chat else (),
        text=None if chat else text,
        max_tokens=_ANSWER_TOKENS,
        temperature=temperature,
        seed=seed,
        stop=profile.stop.get("chat", ()) if chat else _STOP,
        context="" if chat else start,
    )


def commented(instruction: str) -> str:
    """The instruction as Python comment lines."""
    return "\n".join(f"# {line}".rstrip() for line in instruction.strip().splitlines() if line.strip())


def _line_start(target: Target) -> str:
    name = target.path.rsplit("/", 1)[-1]
    return {"command": f"$ sh {name} ", "program": f"$ ./{name.rsplit('.', 1)[0]} "}.get(target.kind, '"')


def reads_stdin(spec: Spec, target: Target) -> bool:
    """Whether the shown runs use stdin and no arguments."""
    shown = usages(spec, target.path)
    return any(use.stdin for use in shown) and not any(use.command for use in shown)


def read(
    completion: Completion, prompt: Prompt, spec: Spec, target: Target, category: Category
) -> tuple[SelfTest, ...] | Malformed:
    """The tests (without ids) in an answer, with distinct inputs; ``Malformed`` if none can run."""
    text = prompt.context + completion.text
    made = (_calls if target.kind == "call" else _lines)(text, spec, target, category)
    return made or Malformed(reason="no test that can run stands in the answer", text=completion.text[:500])


def _calls(text: str, spec: Spec, target: Target, category: Category) -> tuple[SelfTest, ...]:
    kept: dict[str, None] = {}
    samples = [one.call for one in calls_of(spec, target.function or "") if not one.rejected]
    for found in find_calls(text, target.function or "", limit=16).values():
        # Behaviour on inputs of a wrong type is unspecified, and would only show crashes.
        told = None if category == "invalid_input" else samples
        if "..." not in found.call and fits(found.call, target.parameters, told):
            kept[found.call] = None
    return tuple(
        test_of(spec, category, target.subject, Unknown(), input=call, confidence=0.5,
                reasoning="an input that the tester wrote")
        for call in kept
    )  # fmt: skip


_ITEM = re.compile(r"^\s*(?:[-*•]\s+|\d+[.)]\s+|>\s*|\$\s*)?")


def _lines(text: str, spec: Spec, target: Target, category: Category) -> tuple[SelfTest, ...]:
    """Each line as one input: a command's arguments, or its stdin."""
    name = target.path.rsplit("/", 1)[-1]
    started = re.compile(
        rf"^(?:(?:ba)?sh |python3? )?(?:\./)?(?:{re.escape(name)}|{re.escape(name.rsplit('.', 1)[0])})\b ?"
    )
    stdin = reads_stdin(spec, target)
    found: dict[str, None] = {}
    for line in text.splitlines():
        bare = _ITEM.sub("", line, count=1).strip()
        bare = started.sub("", bare).strip().strip("`")
        if bare and len(bare) < 200 and not bare.startswith(("#", "```")) and (stdin or _runs(bare)):
            found[bare] = None
    return tuple(
        test_of(spec, category, target.subject, Unknown(), input="" if stdin else given, confidence=0.4,
                stdin=given + "\n" if stdin else "", reasoning="an input that the tester wrote")
        for given in list(found)[:6]
    )  # fmt: skip


def _runs(line: str) -> bool:
    """Whether a line is safe as shell arguments: closed quotes, and only words."""
    return line.count("'") % 2 == 0 and line.count('"') % 2 == 0 and not re.search(r"[;&|<>$`\\()]", line)
