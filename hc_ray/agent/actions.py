"""The actions of a solver in the style ``loop``, and the parser of its answers. Prompts, the schema of native tool
calls and the parser all derive from one registry.

An answer is a thought and one or more actions. In text, each action is a fenced block whose first word names it; file
contents are not escaped. A fence around text with fences must be longer than these (CommonMark, section 4.5). With
native tool calls, the same actions are functions with the same arguments."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from hc_ray.agent.code_blocks import Block, read_blocks
from hc_ray.domain.prompt import Malformed, ToolCall
from hc_ray.domain.value import Value


class Action(Value):
    """One action requested by a model."""

    name: str
    argument: str = ""
    """The path of a file; empty for a command and for ``submit``."""
    body: str = ""
    """The command, the file's content, or the replacements."""
    seconds: float | None = None
    """The requested time limit."""


class Tool(Value):
    """One kind of action."""

    name: str
    fence: str
    """The opening of its block."""
    says: str
    parameters: dict[str, tuple[str, str]]
    """Name → JSON type and description, for native tool calls; the last one is the body."""
    optional: tuple[str, ...] = ()


_SEARCH, _BETWEEN, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
TOOLS = (
    Tool(
        name="sh", fence="sh",
        says="Run a shell command or script. Working directory and exported variables carry over to the next command; "
             "standard input is closed. `sh timeout=300` raises the time limit to 300 seconds. Start services in the "
             "background with `&`.",
        parameters={"timeout": ("number", "time limit in seconds"), "command": ("string", "the command or script")},
        optional=("timeout",),
    ),
    Tool(
        name="write", fence="write PATH",
        says="Create or replace a file; the block is its whole content. A relative PATH begins at the "
             "working directory, which a command may have changed.",
        parameters={"path": ("string", "the file"), "content": ("string", "its whole content")},
    ),
    Tool(
        name="edit", fence="edit PATH",
        says=f"Replace passages of a file. Each passage stands between lines `{_SEARCH}`, `{_BETWEEN}` and `{_REPLACE}`"
             ": first the text exactly as it is, which must occur once, then the new text.",
        parameters={"path": ("string", "the file"), "replacements": ("string", f"{_SEARCH} … {_BETWEEN} … {_REPLACE}")},
    ),
    Tool(name="submit", fence="submit", says="End the work. What you leave is graded.", parameters={}),
)  # fmt: skip
_NAMES = {"sh": "sh", "bash": "sh", "shell": "sh", "console": "sh", "terminal": "sh", "zsh": "sh",
          **{one.name: one.name for one in TOOLS[1:]}}  # fmt: skip
_LIMIT = re.compile(r"\btimeout[= ](\d+(?:\.\d+)?)s?\b")
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.S)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>")
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
_LONGEST = 1e9
"""A time limit in seconds."""
_HUNK = re.compile(rf"^{_SEARCH}\n(.*?)^{_BETWEEN}\n(.*?)^{_REPLACE}[ \t]*$", re.S | re.M)


def describe() -> str:
    """The description of the actions for a prompt."""
    return "\n".join(f"- `{one.fence}`: {one.says}" for one in TOOLS)


def functions() -> tuple[dict[str, Any], ...]:
    """The actions as functions in OpenAI's format."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": one.name,
                "description": one.says,
                "parameters": {
                    "type": "object",
                    "properties": {name: {"type": kind, "description": says}
                                   for name, (kind, says) in one.parameters.items()},
                    "required": [name for name in one.parameters if name not in one.optional],
                },
            },
        }
        for one in TOOLS
    )  # fmt: skip


def spoken(text: str) -> str:
    """Remove a reasoning model's thoughts, whose opening tag may be in the prompt. Inside a block, such tags are
    content."""
    kept = _THOUGHT.sub(lambda found: found[0] if _in_block(text[: found.start()]) else "", text)
    if (end := _THOUGHT_ENDS.search(kept)) and not _in_block(kept[: end.start()]):
        kept = kept[end.end() :]
    return text if kept == text else kept.strip()


def _in_block(before: str) -> bool:
    return any(not block.closed for block in read_blocks(before))


def read_actions(text: str) -> tuple[Action, ...] | Malformed:
    """The actions of an answer, in order; empty if there are none. Blocks in other languages are not actions."""
    if text.count("\r\n") == text.count("\n"):  # the line ends of the answer, not of a file in it
        text = text.replace("\r\n", "\n")
    blocks = read_blocks(text)
    swallowed = [one for one in blocks if not one.closed and _named(one)[0] is None]
    if within := [one.info for block in swallowed for one in read_blocks(block.text) if _named(one)[0]]:
        says = f"the fences do not match: the block `{within[0]}` stands within another one"
        return Malformed(reason=says, text=swallowed[0].text[:2000])
    named = ((block, *_named(block)) for block in blocks)
    return _all(_of_block(name, block, words) for block, name, words in named if name is not None)


def _all(found: Iterable[Action | Malformed]) -> tuple[Action, ...] | Malformed:
    """The actions, or the first that is malformed."""
    actions: list[Action] = []
    for one in found:
        if isinstance(one, Malformed):
            return one
        actions.append(one)
    return tuple(actions)


def not_actions(text: str) -> list[Block]:
    """The blocks of an answer that name a language but are not actions."""
    return [block for block in read_blocks(text) if block.info and _named(block)[0] is None]


def _named(block: Block) -> tuple[str | None, list[str]]:
    """The action that a block names, and its further words."""
    words = block.info.replace("{", " ").replace("}", " ").split()
    return (_NAMES.get(words[0].lower()), words[1:]) if words else (None, [])


def _of_block(name: str, block: Block, words: Sequence[str]) -> Action | Malformed:
    if name == "submit":
        return Action(name=name)
    if not block.closed:
        why = ", or holds fences as long as its own: use a longer one for it" if "\n```" in f"\n{block.text}" else ""
        return Malformed(reason=f"the block `{block.info}` is not closed{why}", text=block.text[:2000])
    if name == "sh":
        limit = _LIMIT.search(block.info)
        return _checked(Action(name=name, body=block.text, seconds=float(limit[1]) if limit else None))
    if len(words) != 1:
        return Malformed(reason=f"a block `{name}` names one file, as in `{name} src/main.py`", text=block.info)
    return _checked(Action(name=name, argument=words[0].strip("`'\""), body=block.text))


def read_calls(calls: Sequence[ToolCall]) -> tuple[Action, ...] | Malformed:
    """The actions of native tool calls, in order."""
    return _all(map(_of_call, calls))


def _of_call(call: ToolCall) -> Action | Malformed:
    tool = next((one for one in TOOLS if one.name == call.name), None)
    if tool is None:
        known = ", ".join(one.name for one in TOOLS)
        return Malformed(reason=f"there is no tool {call.name!r}; the tools are {known}", text=call.arguments[:500])
    try:
        given = json.loads(call.arguments or "{}")
        assert isinstance(given, dict)
    except (ValueError, AssertionError, RecursionError):
        return Malformed(reason=f"the arguments of {call.name} are not a JSON object", text=call.arguments[:500])
    missing = [name for name in tool.parameters if name not in tool.optional and not isinstance(given.get(name), str)]
    if missing:
        return Malformed(reason=f"{call.name} needs {', '.join(missing)} as text", text=call.arguments[:500])
    body, limit = next(reversed(tool.parameters), ""), given.get("timeout")
    meant = isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit < _LONGEST
    return _checked(Action(name=tool.name, argument=str(given.get("path", "")), body=str(given.get(body, "")),
                           seconds=float(limit) if limit is not None and meant else None))  # fmt: skip


def _checked(action: Action) -> Action | Malformed:
    if _UNUSABLE.search(action.argument + action.body) or len(action.argument) > 1000:
        return Malformed(reason=f"the path or text of {action.name} cannot be used", text=action.argument[:200])
    if action.name == "edit" and not replacements(action.body):
        says = f"an edit needs the lines `{_SEARCH}`, `{_BETWEEN}` and `{_REPLACE}`, each alone on its line"
        return Malformed(reason=says, text=action.body[:500])
    return action


def replacements(body: str) -> tuple[tuple[str, str], ...]:
    """The old and new text of each passage of an edit."""
    text = body if body.endswith("\n") else body + "\n"
    return tuple((found[1], found[2]) for found in _HUNK.finditer(text))
