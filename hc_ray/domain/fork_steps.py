"""What is done in a fork of a sandbox that nobody needs afterwards, told beforehand: a sandbox behind a process's
boundary does all of it within one call."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from hc_ray.domain.candidate import is_program
from hc_ray.domain.ports import Difference, ExecResult, Sandbox
from hc_ray.domain.value import Value

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ForkStep(Protocol[T_co]):
    """One call to a sandbox, and what comes of it; it means and raises what the call of the same name does."""

    async def on(self, sandbox: Sandbox) -> T_co: ...


class Put(Value):
    files: dict[str, bytes]
    mode: int = 0o644

    async def on(self, sandbox: Sandbox) -> None:
        await sandbox.put(self.files, mode=self.mode)


def texts_put(files: Mapping[str, str]) -> list[Put]:
    """What writes a candidate's texts, those that are programs so that they may be run."""
    programs = {path: text.encode() for path, text in files.items() if is_program(path, text)}
    others = {path: text.encode() for path, text in files.items() if path not in programs}
    return [Put(files=part, mode=mode) for part, mode in ((programs, 0o755), (others, 0o644)) if part]


def joined(steps: Sequence[ForkStep[Any]]) -> list[ForkStep[Any]]:
    """The same with fewer calls: files that are written one after another in one mode are written at once."""
    found: list[ForkStep[Any]] = []
    for step in steps:
        last = found[-1] if found else None
        if isinstance(step, Put) and isinstance(last, Put) and last.mode == step.mode:
            found[-1] = Put(files=last.files | step.files, mode=step.mode)
        else:
            found.append(step)
    return found


class PutTar(Value):
    tar: bytes

    async def on(self, sandbox: Sandbox) -> None:
        await sandbox.put_tar(self.tar)


class Exec(Value):
    command: tuple[str, ...]
    timeout: float
    output_limit: int = 1 << 20

    async def on(self, sandbox: Sandbox) -> ExecResult:
        return await sandbox.exec(self.command, timeout=self.timeout, output_limit=self.output_limit)


class TakeDifference(Value):
    async def on(self, sandbox: Sandbox) -> Difference:
        return await sandbox.difference()


@runtime_checkable
class ForksInOneCall(Protocol):
    """A sandbox that has a way of its own to do what ``in_fork`` does."""

    async def in_fork(self, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T: ...


async def in_fork(sandbox: Sandbox, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
    """Fork a sandbox, take the steps in the fork, close it whatever happens, and answer what the last step did. Raises
    what a step raises: none after it is taken."""
    before = joined(before)
    if isinstance(sandbox, ForksInOneCall):
        return await sandbox.in_fork(name, before, last)
    fork = await sandbox.fork(name)
    try:
        for step in before:
            await step.on(fork)
        return await last.on(fork)
    finally:
        await fork.close()
