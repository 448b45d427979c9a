"""``mcp``: self-tests, sweeps and trials as tools for clients of the Model Context Protocol."""

from typing import Annotated

import typer

from hc_ray.cli.options import ENGINE, Config, Given, config_from, takes
from hc_ray.domain.errors import PlatformError


@takes("--sandbox", *ENGINE)
def mcp(
    given: Given,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow", metavar="DIR", help="A folder that tools may read. Repeatable. Default: the current directory."
        ),
    ] = None,
    image: Annotated[
        str, typer.Option("--image", help="The image of Docker sandboxes; bubblewrap has the host's own programs.")
    ] = "python:3.11-slim-bookworm",
    config: Config = None,
    tester: Annotated[str | None, typer.Option("--tester", help="Who writes the tests, as for testgen.")] = None,
) -> int:
    """Serve tools over stdin and stdout for an MCP client. See docs/mcp.md for how to add it to one."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise PlatformError("hc-ray mcp needs the extra `mcp`; install it with: pip install 'hc-ray[mcp]'")
    settings = config_from(config, given)
    if tester is not None:
        from hc_ray_actors.jobs.testers import with_testers

        settings = with_testers(settings, tester)
    from hc_ray_actors.integrations.mcp_server import serve

    serve(settings, allow or ["."], image)
    return 0
