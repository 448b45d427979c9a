"""A task as a solver may see it. There is no path in it: environment files are found by the sandboxes under the public
root by ``Task.digest``, and nothing here leads to tests or solution."""

import posixpath
import re
from typing import Literal

from hc_ray.domain.value import Shown, Value


class Copy(Value):
    """One ``COPY`` (or ``ADD`` of local files) of the Dockerfile."""

    sources: tuple[str, ...]
    destination: str
    """WORKDIR already applied, relative where only the image knows it; ends with ``/`` when it names a folder."""

    def below(self, workdir: str) -> "Copy":
        """With an absolute destination."""
        path = posixpath.normpath(posixpath.join(workdir, self.destination))
        slash = "/" if self.destination.endswith("/") and path != "/" else ""
        return self.model_copy(update={"destination": path + slash})


class Environment(Value):
    """What the task's container is made of, parsed from ``[environment]`` and the Dockerfile."""

    docker_image: str | None = None
    """A prebuilt image; with no Dockerfile, ``environment/*`` is copied into its workdir."""
    dockerfile: str | None = None
    """The text of ``environment/Dockerfile``; None where there is none."""
    base: str | None = None
    """The image named by the first FROM, or ``docker_image``."""
    workdir: str = "/app"
    """Empty where nobody names it: then it is the image's own."""
    env: dict[str, str] = {}
    copies: tuple[Copy, ...] = ()
    files: tuple[str, ...] = ()
    """Paths of the files that the image is seen to get from ``environment/``, the first thousand; relative ones lie in
    a workdir that only the image knows."""
    run_steps: tuple[str, ...] = ()
    """RUN lines: a sandbox that cannot build images refuses the task with them."""
    compose: bool = False
    """A compose file is present."""
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    build_timeout_sec: float = 600.0
    network: Literal["unmentioned", "none", "public", "allowlist"] = "unmentioned"

    def placed(self, images: str = "") -> "Environment":
        """With workdir and absolute paths. ``images``: the workdir of the image itself, as far as it has one. Where it
        has none either, commands run in ``/`` (Docker's default) under a Dockerfile, in ``/app`` (the custom of
        Harbor's images) in a prebuilt image."""
        workdir = self.workdir or images.rstrip("/") or ("/app" if self.dockerfile is None else "/")
        return self.model_copy(
            update={
                "workdir": workdir,
                "copies": tuple(copy.below(workdir) for copy in self.copies),
                "files": tuple(posixpath.normpath(posixpath.join(workdir, file)) for file in self.files),
            }
        )


Grading = Literal["isolated", "shared", "separate"]
"""Where the tests run: ``isolated`` in a fresh sandbox of the task's image, ``shared`` in the candidate's own living
sandbox, ``separate`` in one of an image of the verifier's own."""


FULL_PATH = re.compile(r"(?<![\w./:~<!-])/[\w.+-]*\w(?:/[\w.+-]*\w)*")
"""A full path in a text."""


def named_in_tmp(instruction: str) -> tuple[str, ...]:
    """Paths below ``/tmp`` that an instruction names. All else there is scratch, and nobody's work."""
    return tuple(dict.fromkeys(path for path in FULL_PATH.findall(instruction) if path.startswith("/tmp/")))


class Task(Value):
    """What a solver, a tester and a reader of prompts may know of a task."""

    name: str
    """Harbor's task name, or the folder's name where ``[task] name`` is absent. Never put into a prompt."""
    digest: str
    """Public digest: SHA-256 over instruction, environment files and the solver's part of task.toml."""
    instruction: str
    environment: Environment
    agent_timeout_sec: float | None = None
    agent_user: str | None = None
    tags: tuple[str, ...] = ()
    """``[metadata] tags``: selects tasks, never put into a prompt."""
    grading: Grading = "isolated"
    """As the task asks; a sweep may ask for more. Says nothing of what the tests are."""


class RefusedTask(Value):
    """A folder of a dataset that cannot be taken, with the reason in one line."""

    name: str
    reason: str


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
    repositories: dict[str, Shown] = {}
    """Git repository, by its full path → its state and its last commits, as git tells them."""
    system: str = ""
    """The distribution's own name."""
    user: str = ""
