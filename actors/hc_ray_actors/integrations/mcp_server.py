"""``hc-ray mcp``: serves the tools of a ``Workshop`` by the Model Context Protocol, over stdin and stdout.

Each call runs as its own task, which closes its sandboxes if it is cancelled or the client goes away."""

import asyncio
import functools
import inspect
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TextIO

import anyio
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.types import ToolAnnotations

from hc_ray import __version__
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.credentials import scrub
from hc_ray.domain.errors import HcRayError
from hc_ray.machine import sealed_guard
from hc_ray.machine.paths import data_root
from hc_ray_actors.integrations.mcp_folders import Folders
from hc_ray_actors.integrations.mcp_workshop import Workshop
from hc_ray_actors.integrations.mcp_workspace import WORKDIR

BEAT = 5.0
"""Seconds between two progress messages."""
INSTRUCTIONS = (
    "hc-ray writes tests for a task from its instruction alone (generate_tests) and runs them on a copy of the folder "
    f"that the work is done in (run_tests), in a sandbox where that folder is {WORKDIR}. The tests are guesses about "
    "what the instruction means: a failing one may be wrong."
)


class Server:
    """Serves the tools as calls of the protocol."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop, self._calls = workshop, set[asyncio.Task[Any]]()
        self._fast: FastMCP[Any] = FastMCP("hc-ray", instructions=INSTRUCTIONS, log_level="WARNING")
        self.protocol = self._fast._mcp_server
        self.protocol.version = __version__  # FastMCP has no parameter for it
        reads = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
        for tool in (workshop.generate_tests, workshop.run_tests, workshop.decompose, workshop.sweep_status,
                     workshop.show_trial):  # fmt: skip
            self._fast.add_tool(self._as_call(tool), description=inspect.getdoc(tool), annotations=reads)

    def _as_call(self, tool: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Wrap a tool: reports progress to the client, and turns exceptions into one line."""

        @functools.wraps(tool)
        async def call(**given: Any) -> Any:
            task = asyncio.ensure_future(tool(**given))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            context, began = self._fast.get_context(), time.monotonic()
            try:
                while not (await asyncio.wait([task], timeout=BEAT))[0]:
                    seconds = time.monotonic() - began
                    await context.report_progress(seconds, message=f"working for {seconds:.0f} s")
                return task.result()
            except HcRayError as error:
                raise ToolError(scrub(" ".join(str(error).split()))) from None
            except OSError as error:
                raise ToolError(f"system error: {error.strerror}") from None
            except Exception as error:
                # A bug's text may quote file contents, so only its type is reported.
                print(f"hc-ray mcp: bug: {type(error).__name__}", file=sys.stderr)
                raise ToolError(f"bug in hc-ray: {type(error).__name__}") from None
            finally:
                task.cancel()

        return call

    async def close(self) -> None:
        """Cancel every call, then close sandboxes and engines."""
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._workshop.close()


def serve(config: SweepConfig, allowed: Sequence[str], image: str) -> None:
    """Serve until the client closes stdin or a signal arrives. Raises ``UserError`` for an allowed path that is not a
    folder."""
    folders = Folders(allowed)
    sealed_guard.install(data_root() / "sealed")
    # Stdout belongs to the protocol: other output of this process and its children goes to stderr.
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asyncio.run(_serve(Server(Workshop(config, folders, image)), protocol))


async def _serve(server: Server, output: TextIO) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def talk() -> None:
        async with stdio_server(stdout=anyio.wrap_file(output)) as (reads, writes):
            await server.protocol.run(reads, writes, server.protocol.create_initialization_options())

    talking, stopping = asyncio.create_task(talk()), asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait([talking, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await server.close()
    if not talking.done():
        os._exit(0)  # a thread of the SDK blocks on stdin, and nothing can interrupt it
    stopping.cancel()
    await talking
