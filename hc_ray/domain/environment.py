"""What was seen of a task's untouched environment."""

from hc_ray.domain.value import Shown, Value


class FileView(Value):
    """A file of the untouched workspace, as its tester sees it."""

    path: Shown
    """A folder that is empty or was not looked into ends in a slash."""
    size: int
    lines: int | None = None
    preview: Shown = ""
    """Its first lines; empty for what is no text."""
    functions: tuple[Shown, ...] = ()
    """Signatures that a Python file defines."""


class EnvironmentView(Value):
    """What the untouched environment holds."""

    tools: dict[str, str] = {}
    """Name → version, as the tool says it; empty text where it says none."""
    shared: dict[str, str] = {}
    """Of tools that no sandbox can change and that others have, too (in bubblewrap the host's): what tells such a
    program from any other → its version."""
    files: tuple[FileView, ...] = ()
    count: int = 0
    """Files and empty folders of the workdir, those beyond ``files`` included."""
    outside: tuple[FileView, ...] = ()
    """What the instruction names outside of the workdir, by full paths."""
    system: str = ""
    """The distribution's own name."""
    user: str = ""
