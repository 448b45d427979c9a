"""The deliverable of the direct style: the one file that an answer must be, if the instruction determines it.

No rule guesses a file. Unless exactly one named path is missing, or one existing file has the requested function, the
answer must name its files itself."""

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
    """The file to write, if it is known beforehand."""

    path: str | None = None
    """Relative if it is below the workdir, else absolute; None if the answer names its files."""
    exists: bool = False
    """Whether it exists in the environment and must be changed."""
    signatures: tuple[Signature, ...] = ()
    """Functions that a Python module must define; empty for anything else."""
    inputs: tuple[str, ...] = ()
    """Further named files that exist in the environment."""

    @property
    def language(self) -> Language:
        return language_of(self.path or "")

    @property
    def kind(self) -> Kind:
        """``function``: a Python module with named functions; ``script``: a Python program; ``shell``; ``program``: a C
        source; ``file``: anything else."""
        return "function" if self.signatures else _KINDS.get(self.language, "file")


def language_of(path: str) -> Language:
    """The language of a path's suffix."""
    return _LANGUAGES.get(path.rsplit("/", 1)[-1].rpartition(".")[2].lower(), "text")


def deliverable_of(spec: Spec) -> Deliverable:
    """The file to write: the only named path that is missing, or else the only existing one with a function that the
    instruction names."""
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
