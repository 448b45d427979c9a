"""The monitor as a PreToolUse hook of Claude Code: takes an event and returns the hook protocol's answer.

Actions that the monitor refuses are blocked, with a reason for Claude; an action that gave the same result too often
ends the turn (``continue`` false). Without an objection it stays silent, since approval would skip the user's
permissions."""

import contextlib
import json
import os
import shlex
from pathlib import Path
from typing import Any

from hc_ray.agent.actions import Action
from hc_ray.agent.monitor import REPEATED, Advice, Monitor, Step

_EVENT = "PreToolUse"
_FILES = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
"""Tool that writes files → the field with the path."""
_TAIL = 1 << 18
"""Bytes to read from the end of a transcript: enough for the monitor's window, and fast enough for a hook."""


def answer(event: bytes, *, approve: bool = False) -> dict[str, Any]:
    """The answer to an event; with ``approve`` also if there is no objection. Raises ``ValueError`` for anything but a
    PreToolUse event."""
    try:
        data = json.loads(event)
    except (ValueError, RecursionError):
        raise ValueError("the event is not JSON") from None
    if not isinstance(data, dict) or data.get("hook_event_name", _EVENT) != _EVENT:
        raise ValueError(f"the event is not a {_EVENT} event")
    tool, given, workdir = data.get("tool_name"), data.get("tool_input"), data.get("cwd") or str(Path.cwd())
    if not isinstance(tool, str) or not isinstance(given, dict) or not isinstance(workdir, str):
        raise ValueError("the event lacks tool_name, tool_input or cwd")
    field = "command" if tool == "Bash" else _FILES.get(tool)
    if field is None:
        return {"continue": True}
    if not isinstance(given.get(field), str):
        raise ValueError(f"the event lacks tool_input.{field}")
    # Claude Code writes files without a shell; express it as a command, so that the same rules apply.
    body = given[field] if tool == "Bash" else f"tee {shlex.quote(given[field])}"
    action, monitor = Action(name="sh", body=body), Monitor(workdir, home=os.environ.get("HOME", ""))
    advice, past = monitor.check(action), _past(data.get("transcript_path"))
    if advice.allowed and past and tool == "Bash":
        back = monitor.look_back(past)
        if back.rule == "progress" or past[-1].action == action:
            advice = back if back.says else advice
    return _told(advice, approve)


def _told(advice: Advice, approve: bool) -> dict[str, Any]:
    """Encode an advice in the current protocol, plus the ``decision`` of older versions."""
    said: dict[str, Any] = {"hookEventName": _EVENT}
    if advice.allowed:
        told: dict[str, Any] = {"continue": True}
        if approve:
            reason = advice.says or "the monitor has no objection"
            told |= {"decision": "approve", "reason": reason}
            said |= {"permissionDecision": "allow", "permissionDecisionReason": reason}
        said |= {"additionalContext": advice.says} if advice.says else {}
        return told | ({"hookSpecificOutput": said} if len(said) > 1 else {})
    said |= {"permissionDecision": "deny", "permissionDecisionReason": advice.says}
    ends = advice.rule == "repetition"
    told = {"continue": not ends, "decision": "block", "reason": advice.says, "hookSpecificOutput": said}
    return told | ({"stopReason": advice.says} if ends else {})


def _past(transcript: object) -> list[Step]:
    """The last commands of a session with their results; empty if its transcript cannot be read."""
    commands: dict[str, str] = {}
    steps: list[Step] = []
    for block in _blocks(transcript):
        if block.get("type") == "tool_use" and block.get("name") == "Bash":
            given = block.get("input")
            commands[str(block.get("id"))] = str(given.get("command")) if isinstance(given, dict) else ""
        elif block.get("type") == "tool_result" and (command := commands.get(str(block.get("tool_use_id")))):
            result, failed = json.dumps(block.get("content")), block.get("is_error") is True
            if failed and REPEATED in result:
                continue  # blocked as a repetition, so it was not run and has no result
            steps.append(Step(action=Action(name="sh", body=command), failed=failed, result=result))
    return steps


def _blocks(transcript: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError), Path(str(transcript)).expanduser().open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
        for line in stream.read().splitlines():
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                found += [one for one in json.loads(line)["message"]["content"] if isinstance(one, dict)]
    return found
