"""What the direct style asks for: the one file that an answer is, where the instruction settles it by naming it.

No rule guesses a file. Where not exactly one named path is missing, and none that exists holds the function that is
asked for, the answer names its files itself."""

from typing import Literal

from hc_ray.domain.value import Value
from hc_ray.spec.spec import NamedFile, Signature, Spec

Language = Literal["python", "shell", "c", "json", "csv", "text"]
Kind = Literal["function", "script", "shell", "program", "file"]

_LANGUAGES: dict[str, Language] = {
    "py": "python", "sh": "shell", "bash": "shell", "c": "c", "json": "json", "csv": "csv", "tsv": "csv",
}  # fmt: skip
_KINDS: dict[Language, Kind] = {"python": "script", "shell": "shell", "c": "program"}


class Deliverable(Value):
    """One file to write, or none that is known beforehand."""

    path: str | None = None
    """Relative to the workdir where it lies in it, else absolute; None: the answer names its files."""
    exists: bool = False
    """The environment brings it: it is to be changed."""
    signatures: tuple[Signature, ...] = ()
    """Functions that a Python module must define; empty for anything else."""
    inputs: tuple[str, ...] = ()
    """Further named files that the environment brings."""

    @property
    def language(self) -> Language:
        return language_of(self.path or "")

    @property
    def kind(self) -> Kind:
        """``function``: a Python module with named functions; ``script``: Python that is run; ``shell``; ``program``: a
        C source; ``file``: anything else."""
        return "function" if self.signatures else _KINDS.get(self.language, "file")


def language_of(path: str) -> Language:
    """The language that a path's suffix stands for."""
    return _LANGUAGES.get(path.rsplit("/", 1)[-1].rpartition(".")[2].lower(), "text")


def deliverable_of(spec: Spec) -> Deliverable:
    """What is to be written: the only named path that is missing, else the only existing one that holds a function
    that the instruction names."""
    missing = [file for file in spec.files if not file.exists]
    chosen = missing[0] if len(missing) == 1 else None
    if not missing:
        held = [file for file in spec.files if _holds(spec, file)]
        chosen = held[0] if len(held) == 1 else None
    inputs = tuple(file.path for file in spec.files if file.exists and file is not chosen)
    if chosen is None:
        return Deliverable(inputs=inputs)
    signatures = spec.signatures if language_of(chosen.path) == "python" else ()
    return Deliverable(path=chosen.path, exists=chosen.exists, signatures=signatures, inputs=inputs)


def _holds(spec: Spec, file: NamedFile) -> bool:
    view = next((one for one in spec.snapshot.files if one.path == file.path), None)
    names = {signature.name for signature in spec.signatures}
    return view is not None and any(text.partition("(")[0].split()[-1:] == [name] for text in view.functions
                                    for name in names)  # fmt: skip
