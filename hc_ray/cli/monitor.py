"""``monitor --hook``: the monitor of hc-ray's agent before each action of Claude Code (docs/claude.md)."""

import json
import sys
from typing import Annotated

import typer

Hook = Annotated[bool, typer.Option("--hook", help="Read a PreToolUse event of Claude Code on stdin and answer it.")]
Approve = Annotated[
    bool, typer.Option("--approve", help="Approve what is not refused, past the user's permissions: for sandboxes.")
]


def monitor(hook: Hook = False, approve: Approve = False) -> int:
    """Look at one action of a coding agent before it is done, by the rules that hc-ray's own agent keeps."""
    from hc_ray.agent.claude_hook import answer

    if not hook:
        raise typer.BadParameter("name how the event is given: --hook")
    try:
        told = answer(sys.stdin.buffer.read() if sys.stdin else b"", approve=approve)
    except ValueError as error:
        # Not 2: to a hook that means "block this action".
        typer.echo(f"hc-ray monitor: {error}; the action goes on unjudged", err=True)
        return 1
    typer.echo(json.dumps(told))
    return 0
