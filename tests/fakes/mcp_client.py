"""The MCP server as clients have it: a process, asked by the official SDK's own client or line by line."""

import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fakes.sweeps import command

if TYPE_CHECKING:
    from mcp import ClientSession

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


@contextlib.asynccontextmanager
async def connected(*words: object, cwd: Path, **environment: str) -> AsyncIterator["ClientSession"]:
    """A session with ``hc-ray mcp``, started in a folder; ``environment`` comes on top of this process's own."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program, *rest = command("mcp", *words)
    server = StdioServerParameters(command=program, args=rest, cwd=cwd, env={**os.environ, **environment})
    with Path(os.devnull).open("w") as nowhere:
        async with stdio_client(server, errlog=nowhere) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session


async def asked(session: "ClientSession", tool: str, **given: Any) -> dict[str, Any] | str:
    """A tool's answer, or the words of its error."""
    from mcp.types import TextContent

    got = await session.call_tool(tool, given)
    (text,) = got.content
    assert isinstance(text, TextContent)
    if got.isError:
        return text.text.removeprefix(f"Error executing tool {tool}: ")
    assert got.structuredContent is not None and json.loads(text.text) == got.structuredContent
    return got.structuredContent


class Line:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def send(self, message: dict[str, Any] | str) -> None:
        text = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        assert self.process.stdin
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def call(self, number: int, tool: str, **given: Any) -> None:
        params = {"name": tool, "arguments": given, "_meta": {"progressToken": number}}
        self.send({"id": number, "method": "tools/call", "params": params})

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; what comes before is skipped. Everything on standard output is the protocol's."""
        assert self.process.stdout
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message
        raise AssertionError("the server ended without an answer")


@contextlib.contextmanager
def started(*words: object, cwd: Path, **environment: str) -> Iterator[Line]:
    """A server that has been greeted; killed at the end, if it still lives."""
    env = {**os.environ, **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command("mcp", *words), cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            line = Line(process)
            line.send({"id": 0, "method": "initialize", "params": HELLO})
            line.answer(0)
            line.send({"method": "notifications/initialized"})
            yield line
        finally:
            process.kill()
