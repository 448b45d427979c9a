"""Steps to take in a temporary fork of a sandbox, declared beforehand, so that a sandbox in another process can do them
in one call."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from hc_ray.domain.candidate import is_program
from hc_ray.domain.ports import Difference, ExecResult, Sandbox
from hc_ray.domain.value import Value

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ForkStep(Protocol[T_co]):
    """One call to a sandbox, with the result and exceptions of the method of the same name."""

    async def on(self, sandbox: Sandbox) -> T_co: ...


class Put(Value):
    files: dict[str, bytes]
    mode: int = 0o644

    async def on(self, sandbox: Sandbox) -> None:
        await sandbox.put(self.files, mode=self.mode)


def texts_put(files: Mapping[str, str]) -> list[Put]:
    """Steps that write a candidate's text files, programs with execute permission."""
    programs = {path: text.encode() for path, text in files.items() if is_program(path, text)}
    others = {path: text.encode() for path, text in files.items() if path not in programs}
    return [Put(files=part, mode=mode) for part, mode in ((programs, 0o755), (others, 0o644)) if part]


def joined(steps: Sequence[ForkStep[Any]]) -> list[ForkStep[Any]]:
    """The same steps with fewer calls: consecutive writes with the same mode are merged."""
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
    """A sandbox with its own implementation of ``in_fork``."""

    async def in_fork(self, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T: ...


async def in_fork(sandbox: Sandbox, name: str, before: Sequence[ForkStep[Any]], last: ForkStep[T]) -> T:
    """Fork a sandbox, take the steps in the fork, always close it, and return the last step's result. If a step raises,
    no further one is taken."""
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
