"""Waiting for work that others wait for, too."""

import asyncio
from typing import TypeVar

Result = TypeVar("Result")


async def result_of(work: "asyncio.Future[Result]") -> Result:
    """What ``work`` comes to; it goes on where whoever waits is cancelled. ``asyncio.shield`` does the same, but from
    Python 3.14 on the event loop then prints a failure that nobody waits for any more."""
    if not work.done():  # one that is may be of another loop
        await asyncio.wait([work])
    return work.result()
