"""What can be tested of a deliverable: each function that a module must define, else the file by its kind."""

import ast
from typing import Literal

from hc_ray.agent.deliverable import Deliverable
from hc_ray.domain.suite import Subject
from hc_ray.domain.value import Value
from hc_ray.spec.source import parsed

TargetKind = Literal["call", "command", "program", "file"]


class Target(Value):
    """One thing that tests exercise."""

    kind: TargetKind
    path: str
    """Relative to the workdir where it lies in it, else absolute."""
    function: str | None = None
    parameters: tuple[str, ...] = ()
    """As written in the signature (``name``, ``name: int = 3``)."""

    @property
    def subject(self) -> Subject:
        return Subject(kind=self.kind, path=self.path, function=self.function)


def targets_of(deliverable: Deliverable) -> tuple[Target, ...]:
    """What can be tested; nothing where no file is known beforehand."""
    if deliverable.path is None:
        return ()
    kinds: dict[str, TargetKind] = {"script": "command", "shell": "command", "program": "program"}
    if deliverable.kind != "function":
        return (Target(kind=kinds.get(deliverable.kind, "file"), path=deliverable.path),)
    return tuple(
        Target(kind="call", path=deliverable.path, function=signature.name, parameters=_parts(signature.parameters))
        for signature in deliverable.signatures
    )  # fmt: skip


def _parts(parameters: str | None) -> tuple[str, ...]:
    """Each parameter as written; empty where the text is none that Python reads."""
    tree = parsed(f"def f({parameters or ''}): pass")
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return ()
    given = tree.body[0].args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [
        ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")
        for argument, default in zip(plain, defaults, strict=True)
    ]
    return (*parts, *([f"*{given.vararg.arg}"] if given.vararg else []))
