"""``scripts/bench engine-client``: what asking a server costs the process that asks. A server in a process of its own
answers each request after the same time, however many there are; measured are the requests a second, as a share of what
it can answer, and the asking process's own processor time for each.

    scripts/bench engine-client --seconds 5
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time

from hc_ray.domain.prompt import Prompt
from hc_ray.engines.http import HttpModel
from hc_ray.reports.terminal import table

AT_ONCE = (16, 64, 128, 256)
DELAY = 0.5
_ANSWER = json.dumps({"choices": [{"index": 0, "text": "pass", "finish_reason": "stop"}]}).encode()


async def serve() -> None:
    """Say the port, then answer for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while head := (await reader.readuntil(b"\r\n\r\n")).lower():
                await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
                await asyncio.sleep(DELAY)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(_ANSWER) + _ANSWER)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def measure(url: str, at_once: int, seconds: float) -> tuple[float, float]:
    """Requests a second, and processor seconds of this process for each."""
    model = HttpModel(url, "none", parallel=at_once)
    prompt = Prompt(role="solver", purpose="bench", text="x" * 2000, max_tokens=64, temperature=0.0, seed=0)
    answered, until = 0, time.monotonic() + seconds

    async def ask() -> None:
        nonlocal answered
        while time.monotonic() < until:
            await model.complete(prompt)
            answered += 1

    began, spent = time.monotonic(), time.process_time()
    await asyncio.gather(*(ask() for _ in range(at_once)))
    rate, cost = answered / (time.monotonic() - began), (time.process_time() - spent) / answered
    await model.aclose()
    return rate, cost


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench engine-client", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of requests at once")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return asyncio.run(serve())
    server = subprocess.Popen([sys.executable, "-m", __spec__.name, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        found = {at_once: asyncio.run(measure(url, at_once, given.seconds)) for at_once in AT_ONCE}
    finally:
        server.kill()
        server.wait()
    rows = [(at_once, f"{rate:.0f}", f"{rate * DELAY / at_once:.2f}", f"{1000 * cost:.2f}")
            for at_once, (rate, cost) in found.items()]  # fmt: skip
    columns = ("requests at once", "answers/s", "of what the server can", "ms of processor time each")
    if given.json:
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
    else:
        table(columns, rows, numbers=columns)


if __name__ == "__main__":
    main()
