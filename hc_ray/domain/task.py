"""A task as a solver may see it. It contains no paths: sandboxes find the environment's files below the public root by
``Task.digest``, and nothing here leads to tests or solution."""

import posixpath
import re
from typing import Literal

from hc_ray.domain.value import Shown, Value


class Copy(Value):
    """One ``COPY`` (or ``ADD`` of local files) of the Dockerfile."""

    sources: tuple[str, ...]
    destination: str
    """With WORKDIR applied, or relative if only the image knows it; ends with ``/`` for a folder."""

    def below(self, workdir: str) -> "Copy":
        """With an absolute destination."""
        path = posixpath.normpath(posixpath.join(workdir, self.destination))
        slash = "/" if self.destination.endswith("/") and path != "/" else ""
        return self.model_copy(update={"destination": path + slash})


class Environment(Value):
    """The task's container, parsed from ``[environment]`` and the Dockerfile."""

    docker_image: str | None = None
    """A prebuilt image; without a Dockerfile, ``environment/*`` is copied into its workdir."""
    dockerfile: str | None = None
    """The text of ``environment/Dockerfile``; None if there is none."""
    base: str | None = None
    """The image in the first FROM, or ``docker_image``."""
    workdir: str = "/app"
    """Empty if not specified, which means the image's own."""
    env: dict[str, str] = {}
    copies: tuple[Copy, ...] = ()
    files: tuple[str, ...] = ()
    """Paths of the files that the image gets from ``environment/``, at most a thousand; relative ones are in a workdir
    that only the image knows."""
    run_steps: tuple[str, ...] = ()
    """RUN lines; a backend that cannot build images refuses tasks that have any."""
    volumes: tuple[str, ...] = ()
    """Paths that the Dockerfile's VOLUME lines name; Docker leaves them out of a container's copies."""
    compose: bool = False
    """Whether there is a compose file."""
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    build_timeout_sec: float = 600.0
    network: Literal["unmentioned", "none", "public", "allowlist"] = "unmentioned"

    def placed(self, images: str = "") -> "Environment":
        """Resolve workdir and paths. ``images``: the image's own workdir, if any. Without one, commands run in ``/``
        (Docker's default) with a Dockerfile, and in ``/app`` (Harbor's convention) in a prebuilt image."""
        workdir = self.workdir or images.rstrip("/") or ("/app" if self.dockerfile is None else "/")
        return self.model_copy(
            update={
                "workdir": workdir,
                "copies": tuple(copy.below(workdir) for copy in self.copies),
                "files": tuple(posixpath.normpath(posixpath.join(workdir, file)) for file in self.files),
            }
        )


Grading = Literal["isolated", "shared", "separate"]
"""Where the tests run: ``isolated`` in a fresh sandbox of the task's image, ``shared`` in the candidate's live sandbox,
``separate`` in a sandbox of the verifier's own image."""


FULL_PATH = re.compile(r"(?<![\w./:~<!-])/[\w.+-]*\w(?:/[\w.+-]*\w)*")
"""A full path in a text."""


def named_in_tmp(instruction: str) -> tuple[str, ...]:
    """Paths below ``/tmp`` that an instruction names. Everything else there is scratch, not part of the work."""
    return tuple(dict.fromkeys(path for path in FULL_PATH.findall(instruction) if path.startswith("/tmp/")))


class Task(Value):
    """The public part of a task, which solvers and testers may know."""

    name: str
    """Harbor's task name, or the folder's name without ``[task] name``. Never put into a prompt."""
    digest: str
    """Public digest: SHA-256 over instruction, environment files and the solver's part of task.toml."""
    instruction: str
    environment: Environment
    agent_timeout_sec: float | None = None
    agent_user: str | None = None
    tags: tuple[str, ...] = ()
    """``[metadata] tags``: selects tasks, never put into a prompt."""
    grading: Grading = "isolated"
    """As requested by the task; a sweep may override it. Says nothing about the tests."""


class RefusedTask(Value):
    """A folder of a dataset that cannot be used, with the reason in one line."""

    name: str
    reason: str


class FileView(Value):
    """A file of the untouched workspace, as a tester sees it."""

    path: Shown
    """Ends in a slash for a folder that is empty or was not read."""
    size: int
    lines: int | None = None
    preview: Shown = ""
    """Its first lines; empty unless it is text."""
    functions: tuple[Shown, ...] = ()
    """Signatures of the functions in a Python file."""


class EnvironmentView(Value):
    """A snapshot of the untouched environment."""

    tools: dict[str, str] = {}
    """Name → version, as reported by the tool; empty if it reports none."""
    shared: dict[str, str] = {}
    """Identity of a tool that all sandboxes share and none can change (in bubblewrap, the host's) → its version."""
    files: tuple[FileView, ...] = ()
    count: int = 0
    """Number of files and empty folders in the workdir, including those not in ``files``."""
    outside: tuple[FileView, ...] = ()
    """Files outside the workdir that the instruction names by full paths."""
    repositories: dict[str, Shown] = {}
    """Full path of a git repository → its status and last commits, as printed by git."""
    system: str = ""
    """The distribution's name."""
    user: str = ""
