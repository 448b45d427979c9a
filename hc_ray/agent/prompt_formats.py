"""Prompts for files in one answer, and the parser of answers: chat (one fenced block per file) and completion (a code
prefix that the model continues, or for data the start of a fenced block). Code is never put into JSON. ``read`` only
cuts: what ``ask`` added, and text after the end of a file."""

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any

from hc_ray.agent.code_blocks import Block, named_blocks, pick_block, read_blocks
from hc_ray.agent.deliverable import Deliverable, Language
from hc_ray.agent.prompt_templates import PROMPTS, fenced, filled, template
from hc_ray.domain.config import Form
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.spec.source import parsed

_FENCES: dict[Language, str] = {"python": "python", "shell": "sh", "c": "c", "json": "json", "csv": "", "text": ""}
_BEGUN = {"shell": "#!/bin/sh\n"}
"""Kind → the certain beginning of its text, which the model continues."""
_STOPS: dict[str, tuple[str, ...]] = {"shell": ("\n```", "\n#!/"), "program": ("\n```", "\nint main(")}
"""Kind → stop sequences that follow from its form; ``Profile.stop`` adds the model's own for functions."""
_TRIED = 400
"""The most lines to cut from Python text until it parses; otherwise it is left as it is."""


@cache
def plans() -> tuple[str, ...]:
    """Names of the plans in ``prompts/``."""
    return tuple(sorted(path.stem.removeprefix("plan_") for path in PROMPTS.glob("plan_*.txt")))


def plan_text(plan: str) -> str:
    """The advice that a plan adds to a prompt. Raises ``ConfigError`` for an unknown plan, suggesting the closest."""
    if plan not in plans():
        near = difflib.get_close_matches(plan, plans(), n=1)
        raise ConfigError(f"unknown plan {plan!r}" + (f"; did you mean {near[0]}?" if near else f"; known: {plans()}"))
    return template(f"plan_{plan}").strip()


def ask(
    instruction: str,
    deliverable: Deliverable,
    *,
    form: Form,
    plan: str,
    hint: str,
    profile: Profile,
    inputs: Mapping[str, str] = {},
    notes: str = "",
    **how: Any,
) -> Prompt:
    """The prompt for ``deliverable``. It contains the whole instruction verbatim.

    ``inputs``: files of the workspace to show (path → text; the caller marks cuts). ``notes``: further text, such as an
    earlier attempt and observations about it (a repair). ``how``: further fields of the prompt."""
    shown = [f"The file `{path}` holds:\n\n{fenced(held)}" for path, held in sorted(inputs.items())]
    advice = shown + [part for part in (notes.strip("\n"), hint.strip(), plan_text(plan)) if part]
    text, how = instruction.strip("\n"), {"role": "solver", "purpose": "candidate"} | how
    if form == "chat":
        name = "chat_one" if deliverable.path else "chat_any"
        user = filled(name, instruction=text, advice=_paragraphs(advice), path=deliverable.path).strip("\n")
        system = Message(role="system", content=filled("chat_system").strip())
        messages = (system, Message(role="user", content=user))
        return Prompt(messages=messages, stop=profile.stop.get("chat", ()), **how)
    asked, begun = _prefix(text, deliverable, advice)
    return Prompt(text=asked + begun, stop=_stops(deliverable, profile), context=begun, **how)


def _paragraphs(advice: list[str]) -> str:
    return "".join(f"\n{part}\n" for part in advice)


def _prefix(text: str, deliverable: Deliverable, advice: list[str]) -> tuple[str, str]:
    """The two parts of a completion prompt: the question (for data, up to the start of the first fenced block, or of
    the first path if none is known), and the beginning of the file that the answer continues."""
    if deliverable.kind == "file":
        name, fence = "lead_one" if deliverable.path else "lead_any", _FENCES[deliverable.language]
        lead = filled(name, instruction=text, advice=_paragraphs(advice), path=deliverable.path, fence=fence)
        return lead + "\n", ""
    begun = deliverable.signatures[0].head if deliverable.signatures else _BEGUN.get(deliverable.kind, "")
    return as_comments("\n\n".join([text, *advice]), deliverable) + "\n", begun


def as_comments(text: str, deliverable: Deliverable) -> str:
    """A text as comments, as a completion prompt shows it before the deliverable's code."""
    mark = "//" if deliverable.kind == "program" else "#"
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in text.split("\n"))


def _stops(deliverable: Deliverable, profile: Profile) -> tuple[str, ...]:
    if deliverable.path is None:
        return ()
    stops = _STOPS.get(deliverable.kind, ("\n```",))
    if deliverable.kind == "function":
        own = profile.stop.get("completion", ())
        # With several functions, the first one's stop sequence would cut before the second.
        stops += tuple(stop for stop in own if len(deliverable.signatures) == 1 or not stop.startswith("\ndef"))
    return tuple(dict.fromkeys(stops))


def read(completion: Completion, prompt: Prompt, deliverable: Deliverable) -> dict[str, str] | Malformed:
    """The files of an answer, path → text; ``Malformed`` if there are none. A Python file that was cut by its token
    limit, or that a completion ran past, is trimmed to its last complete part."""
    if completion.finish_reason == "context":
        return Malformed(reason="the prompt does not fit the model's context", text="")
    if prompt.text is not None and deliverable.path is not None:
        files = {deliverable.path: _continued(completion.text, prompt.context)}
    else:
        bare = completion.text if prompt.text is None else ""
        files = _from_blocks(read_blocks(completion.text), bare, deliverable)
    if completion.finish_reason == "length" or prompt.text is not None:
        files = {path: _trimmed(text) if path.endswith(".py") else text for path, text in files.items()}
    files = {path: text for path, text in files.items() if text.strip()}
    if not files:
        return Malformed(reason=f"the answer holds no {deliverable.path or 'file that it names'}",
                         text=completion.text[:2000])  # fmt: skip
    if prompt.text is not None and prompt.context and not completion.text.strip():
        return Malformed(reason="the answer is empty", text="")
    return files


def _continued(text: str, begun: str) -> str:
    if text.startswith("```"):
        return ""  # the fence was closed immediately
    whole = begun + text
    return whole if not text or whole.endswith("\n") else whole + "\n"


def _from_blocks(blocks: tuple[Block, ...], bare: str, deliverable: Deliverable) -> dict[str, str]:
    if deliverable.path is None:
        return {path: block.text for path, block in named_blocks(blocks).items()}
    block = pick_block(blocks, deliverable.path, deliverable.language)
    if block is not None:
        return {deliverable.path: block.text}
    if not blocks and _is_content(bare, deliverable):
        return {deliverable.path: bare.strip("\n") + "\n"}
    return {}


def _is_content(bare: str, deliverable: Deliverable) -> bool:
    """Whether an answer without a fence is the file itself: always for data, for code if it looks like code."""
    text = bare.strip()
    if deliverable.kind == "file":
        return bool(text)
    if deliverable.language == "python":
        return bool(_trimmed(bare).strip()) and any(word in text for word in ("def ", "import ", "print("))
    return text.startswith("#!") or "#include" in text


def _trimmed(text: str) -> str:
    """``text`` if it parses, or else its longest prefix of whole lines that parses, or else ``text``."""
    if parsed(text):
        return text
    lines = text.split("\n")
    for count in range(len(lines) - 1, max(0, len(lines) - 1 - _TRIED), -1):
        begun = "\n".join(lines[:count]) + "\n"
        if parsed(begun):
            return begun if begun.strip() else text
    return text
