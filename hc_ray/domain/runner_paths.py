"""Where the runner lies inside every sandbox, whatever the backend.

The runner (an interpreter with its standard library, shared libraries, loader and pytest) is mounted read-only at
``/.hc``: right below the root, where nothing that lives in the sandbox can move it, and no folder of the image is
touched. It starts in an image that has no libc, no shell and no Python: its loader and libraries are named in the
executable itself, so nothing has to be set in the environment and nothing leaks into the children it starts."""

RUNNER_ROOT = "/.hc"
"""The mount point. Left out of every difference."""

RUNNER_PYTHON: tuple[str, ...] = (f"{RUNNER_ROOT}/bin/python3",)
"""The argv that starts the runner's interpreter."""

RUNNER_LIB = f"{RUNNER_ROOT}/lib/hc"
"""The folder of ``hc_<name>.py``, one for each module of ``hc_ray/sandboxes/inside``."""

PYTEST_PURE = f"{RUNNER_ROOT}/lib/pytest_pure"
"""pytest and what it imports, pure Python: a foreign ``python3`` (3.11 or later) can import it by ``PYTHONPATH``."""


_START = (
    "import sys; del sys.argv[0]; folder, _, file = sys.argv[0].rpartition('/'); "
    "sys.path[:] = [folder, *filter(None, sys.path)]; __import__(file[:-3]).main(); "
    "sys.stdout.flush(); import os; os._exit(0)"
)
"""Imports a script rather than run it as a file, so that its byte code is used, and leaves without taking the
interpreter down, which takes as long as its start. The working directory, which ``-c`` puts on the path, is taken off
it before anything is imported."""
MACHINERY = (*RUNNER_PYTHON, "-I")
"""How commands begin that are no candidate's: nothing in the sandbox has a say in how Python starts, and Docker
runs them as root."""


def inside_script(name: str) -> str:
    """Path inside a sandbox of the module ``name`` of ``hc_ray/sandboxes/inside``."""
    return f"{RUNNER_LIB}/hc_{name}.py"


def inside_command(name: str) -> list[str]:
    """The argv that runs a script as the user of a candidate's commands; arguments may follow."""
    return [*RUNNER_PYTHON, "-ES", "-c", _START, inside_script(name)]


def machinery_command(name: str) -> list[str]:
    """The argv that runs a script as the machinery's own; arguments may follow."""
    return [*MACHINERY, "-S", "-c", _START, inside_script(name)]
