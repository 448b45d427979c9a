"""``mcp``, ``monitor --hook``: parts of hc-ray as tools for other programs."""

import json
import sys
from typing import Annotated

import typer
from typer import Option

from hc_ray.cli.options import ENGINE, Config, Given, TestsBy, config_from, takes
from hc_ray.domain.errors import PlatformError


@takes("--sandbox", *ENGINE)
def mcp(
    given: Given,
    allow: Annotated[
        list[str] | None,
        Option(
            "--allow", metavar="DIR", help="A folder that tools may read. Repeatable. Default: the current directory."
        ),
    ] = None,
    image: Annotated[
        str, Option("--image", help="Image for Docker sandboxes; bubblewrap uses the host's programs.")
    ] = "python:3.11-slim-bookworm",
    config: Config = None,
    tester: TestsBy = None,
) -> None:
    """Serve tools over stdin and stdout for an MCP client. See docs/mcp.md for how to add it to one."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise PlatformError("hc-ray mcp needs the extra `mcp`; install it with: pip install 'hc-ray[mcp]'")
    settings = config_from(config, given, tester=tester)
    from hc_ray_actors.integrations.mcp_server import serve

    serve(settings, allow or ["."], image)


def monitor(
    hook: Annotated[
        bool, Option("--hook", help="Read a PreToolUse event of Claude Code on stdin and answer it.")
    ] = False,
    approve: Annotated[
        bool, Option("--approve", help="Approve what is not refused, bypassing the user's permissions. For sandboxes.")
    ] = False,
) -> int:
    """Check one action of a coding agent before it runs. The rules are those of hc-ray's own agent."""
    from hc_ray.agent.claude_hook import answer

    if not hook:
        raise typer.BadParameter("say how the event arrives: --hook")
    try:
        told = answer(sys.stdin.buffer.read() if sys.stdin else b"", approve=approve)
    except ValueError as error:
        # Not 2: to a hook that means "block this action".
        typer.echo(f"hc-ray monitor: {error}; the action proceeds unchecked", err=True)
        return 1
    typer.echo(json.dumps(told))
    return 0
