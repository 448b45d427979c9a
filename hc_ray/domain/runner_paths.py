"""Paths of the runner inside every sandbox, whatever the backend.

The runner (an interpreter with its standard library, shared libraries, loader and pytest) is mounted read-only at
``/.hc``, directly below the root, where no process in the sandbox can move it and no folder of the image is affected.
It also works in images without libc, shell or Python: the executable itself names its loader and libraries, so it needs
no environment variables, which its children would inherit."""

RUNNER_ROOT = "/.hc"
"""The mount point, which every difference leaves out."""

RUNNER_PYTHON: tuple[str, ...] = (f"{RUNNER_ROOT}/bin/python3",)
"""The argv that starts the runner's interpreter."""

RUNNER_LIB = f"{RUNNER_ROOT}/lib/hc"
"""Folder of ``hc_<name>.py``, one per module of ``hc_ray/sandboxes/inside``."""

PYTEST_PURE = f"{RUNNER_ROOT}/lib/pytest_pure"
"""pytest with its dependencies, pure Python, so that another ``python3`` (3.11 or later) can import it by
``PYTHONPATH``."""


_START = (
    "import sys; del sys.argv[0]; folder, _, file = sys.argv[0].rpartition('/'); "
    "sys.path[:] = [folder, *filter(None, sys.path)]; __import__(file[:-3]).main(); "
    "sys.stdout.flush(); import os; os._exit(0)"
)
"""Imports a script instead of running it as a file, to use its byte code, and exits without interpreter shutdown, which
takes as long as the start. First removes the working directory, which ``-c`` adds, from the path."""
MACHINERY = (*RUNNER_PYTHON, "-I")
"""Prefix of hc-ray's own commands, not a candidate's: nothing in the sandbox can influence how Python starts, and
Docker runs them as root."""


def inside_script(name: str) -> str:
    """Path inside a sandbox of the module ``name`` of ``hc_ray/sandboxes/inside``."""
    return f"{RUNNER_LIB}/hc_{name}.py"


def inside_command(name: str) -> list[str]:
    """The argv to run a script as the user of a candidate's commands; arguments may follow."""
    return [*RUNNER_PYTHON, "-ES", "-c", _START, inside_script(name)]


def machinery_command(name: str) -> list[str]:
    """The argv to run a script as hc-ray's own command; arguments may follow."""
    return [*MACHINERY, "-S", "-c", _START, inside_script(name)]
