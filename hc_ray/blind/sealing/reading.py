"""Reads one task folder completely: the public task, its sealed part, its digests and all faults.

Vault, check and split all read tasks here, so that what ``tasks check`` calls a fault is what a sweep refuses."""

import os
import re
from pathlib import Path

from hc_ray.blind.sealing.own_image import COMPOSE_FILE, OwnImage, environment_of, own_image
from hc_ray.blind.sealing.tree import Entry, entries
from hc_ray.blind.sealing.variables import VARIABLE, resolved_here
from hc_ray.domain.credentials import is_secret_name
from hc_ray.domain.errors import DatasetError
from hc_ray.domain.task import Copy, Environment, Grading, Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.tasks.dockerfile import ParsedDockerfile, absent, parse_dockerfile, placed
from hc_ray.tasks.task_sections import Fault, ParsedTaskToml
from hc_ray.tasks.task_toml import parse_task_toml

_FILES = 1000
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)


class Reading(Value):
    """The content of one task folder. ``task`` is None exactly if ``faults`` is not empty."""

    name: str
    """Harbor's task name, or the folder's."""
    public: Path
    """The folder with task.toml, instruction.md and environment/."""
    sealed: Path
    """The folder with tests/ and solution/: the same one, except where they were shipped as an archive."""
    task: Task | None = None
    parsed: ParsedTaskToml = ParsedTaskToml()
    environment: tuple[Entry, ...] = ()
    tests: tuple[Entry, ...] = ()
    solution: tuple[Entry, ...] = ()
    own: OwnImage | None = None
    """The image of the verifier's own, where the task has one."""
    faults: tuple[Fault, ...] = ()

    @property
    def sealed_digest(self) -> str:
        """SHA-256 over tests/, solution/, ``[verifier]``, ``[solution]`` and, where they decide, the artefacts."""
        return digest_of(
            {
                "tests": [entry.model_dump() for entry in self.tests],
                "solution": [entry.model_dump() for entry in self.solution],
                "verifier": self.parsed.verifier.model_dump(mode="json"),
                "solution_section": self.parsed.solution.model_dump(mode="json"),
                **({"own": self.own.model_dump(mode="json")} if self.own else {}),
            }
        )


def task_folders(dataset: Path) -> list[Path]:
    """The task folders of a dataset, sorted: the folder itself when it is one, else every folder below it that holds a
    task.toml or an instruction.md. Raises ``DatasetError`` when there is none."""
    if not dataset.is_dir():
        raise DatasetError(f"{dataset} is not a folder: name a folder of tasks, or one task")
    found: list[Path] = []
    older = False
    for folder, folders, files in os.walk(dataset):
        older = older or "task.yaml" in files
        if "task.toml" in files or "instruction.md" in files:
            found.append(Path(folder))
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    if not found:
        how = "; task.yaml is of Terminal-Bench 1, whose tasks `harbor task migrate` converts" if older else ""
        raise DatasetError(f"{dataset} contains no task: a task is a folder with task.toml and instruction.md{how}")
    return sorted(found)


def read_folder(public: Path, sealed: Path | None = None) -> Reading:
    """Read one task. Nothing that is wrong with the folder raises; it is in ``faults``."""
    sealed = public if sealed is None else sealed
    faults: list[Fault] = []
    parsed = _toml(public, faults)
    name = parsed.task.name or public.resolve().name
    if parsed.multi_step:
        # Its other parts lie under steps/: to call them missing as well would only confuse.
        return Reading(name=name, public=public, sealed=sealed, parsed=parsed, faults=tuple(faults))
    instruction = _instruction(public, faults)
    sound = len(faults)
    environment = _tree(public / "environment", public, faults, links=True)
    unread = len(faults) > sound
    tests = _tree(sealed / "tests", sealed, faults)
    solution = _tree(sealed / "solution", sealed, faults)
    if not any(entry.path == "test.sh" for entry in tests):
        faults.append(Fault(field="tests/test.sh", says="is missing", remedy="write the script that grades the task"))
    _unsupported(parsed, faults)
    resolved_here("verifier.env", parsed.verifier.env, faults)
    resolved_here("solution.env", parsed.solution.env, faults)
    # Of an environment that could not be read, nothing more can be said.
    made = Environment() if unread else _environment(public, parsed, environment, faults)
    grading, own = grading_of(parsed, tests), None
    if grading == "separate":
        found = own_image(sealed, parsed, tests, made.workdir)
        faults += found if isinstance(found, list) else []
        own = None if isinstance(found, list) else found
    task = None
    if not faults:
        task = Task(
            name=name,
            digest=public_digest(instruction, environment, parsed, grading),
            instruction=instruction,
            environment=made,
            agent_timeout_sec=parsed.agent.timeout_sec,
            agent_user=None if parsed.agent.user is None else str(parsed.agent.user),
            tags=parsed.tags,
            grading=grading,
        )
    return Reading(
        name=name, public=public, sealed=sealed, task=task, parsed=parsed, environment=environment, tests=tests,
        solution=solution, own=own, faults=tuple(faults),
    )  # fmt: skip


def public_digest(instruction: str, environment: tuple[Entry, ...], parsed: ParsedTaskToml, grading: Grading) -> str:
    """SHA-256 over all that a solver may see. Name, tags and metadata are no part of it: to rename a task changes
    nothing that a solver sees. Neither is anything of the sealed half, but for where the tests run, if that is not the
    rule: sandboxes differ by it."""
    return digest_of(
        {
            "instruction": instruction,
            "environment": [entry.model_dump() for entry in environment],
            "environment_section": parsed.environment.model_dump(mode="json"),
            "agent_section": parsed.agent.model_dump(mode="json"),
            **({} if grading == "isolated" else {"grading": grading}),
        }
    )


def grading_of(parsed: ParsedTaskToml, tests: tuple[Entry, ...]) -> Grading:
    """Where the task asks for its tests to run: ``shared`` only where it says so (Harbor's own default), ``separate``
    where it gives its verifier an image."""
    mode = parsed.verifier.environment_mode
    if mode == "shared":
        return "shared"
    own = parsed.verifier.environment
    builds = any(entry.path in ("Dockerfile", COMPOSE_FILE) for entry in tests)
    asked = mode == "separate" or own is not None
    return "separate" if asked and (builds or (own or {}).get("docker_image")) else "isolated"


def strip_canary(text: str) -> str:
    """The instruction without its leading canary comments and the blank lines after them, as Harbor strips them."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.match(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _toml(folder: Path, faults: list[Fault]) -> ParsedTaskToml:
    text = _text(folder / "task.toml", "task.toml", faults, "write it; hc-ray tasks new shows a small one")
    if text is None:
        return ParsedTaskToml()
    parsed = parse_task_toml(text)
    faults.extend(parsed.faults)
    return parsed


def _instruction(folder: Path, faults: list[Fault]) -> str:
    text = _text(folder / "instruction.md", "instruction.md", faults, "write what the solver has to do")
    if text is None:
        return ""
    stripped = strip_canary(text)
    if not stripped.strip():
        faults.append(Fault(field="instruction.md", says="is empty", remedy="describe what the solver has to do"))
    return stripped


def _text(path: Path, field: str, faults: list[Fault], remedy: str) -> str | None:
    try:
        if path.is_symlink() and path.resolve().parent != path.parent.resolve():
            says = "is a link that points outside the task folder"
            faults.append(Fault(field=field, says=says, remedy="replace it with a file"))
            return None
        return path.read_bytes().decode()
    except FileNotFoundError:
        faults.append(Fault(field=field, says="is missing", remedy=remedy))
    except UnicodeDecodeError as error:
        faults.append(Fault(field=field, says=f"is not valid UTF-8 (byte {error.start})", remedy="save it as UTF-8"))
    except OSError as error:
        faults.append(Fault(field=field, says=f"cannot be read: {error.strerror}", remedy="make it a readable file"))
    return None


def _tree(root: Path, task: Path, faults: list[Fault], *, links: bool = False) -> tuple[Entry, ...]:
    try:
        return entries(root, task=task, links=links)
    except DatasetError as error:
        faults.append(Fault(field=root.name, says=str(error), remedy="replace it with regular files inside the task"))
    except OSError as error:
        faults.append(Fault(field=root.name, says=f"cannot be read: {error}", remedy="make it readable"))
    return ()


def _unsupported(parsed: ParsedTaskToml, faults: list[Fault]) -> None:
    """Parts of Harbor's format that hc-ray recognises but does not support: refused, never graded wrongly."""
    if parsed.environment.os == "windows":
        faults.append(Fault(field="environment.os", says="Windows containers are not supported", remedy="use linux"))
    if parsed.verifier.collect:
        says = "collecting from live services is not supported"
        faults.append(Fault(field="verifier.collect", says=says, remedy="remove it, or leave out the task"))


def _environment(folder: Path, parsed: ParsedTaskToml, tree: tuple[Entry, ...], faults: list[Fault]) -> Environment:
    """What the task's container is made of, with what is wrong in that."""
    section = parsed.environment
    paths = [entry.path for entry in tree]
    compose = COMPOSE_FILE in paths
    text: str | None = None
    docker, file = ParsedDockerfile(), "environment/Dockerfile"
    if "Dockerfile" in paths:
        if (text := _text(folder / file, file, faults, "")) is not None:
            docker = parse_dockerfile(text, files=paths)
            for source in absent(docker.copies, paths):
                says = f"copies {source}, of which environment/ holds no file"
                faults.append(Fault(field=file, says=says, remedy="put one there, or correct the name"))
    elif section.docker_image is None and not compose:
        says = "is missing, and task.toml names no docker_image"
        faults.append(Fault(field=file, says=says, remedy="write one, or set docker_image"))
    asked = {name for text in section.env.values() for name, *_ in VARIABLE.findall(text) if is_secret_name(name)}
    for name in sorted(asked):
        says = f"asks for {name}, which is a secret: solvers, artefacts and images would see it"
        faults.append(Fault(field="environment.env", says=says, remedy="move it to [verifier.env], or rename it"))
    made = environment_of(section, text, docker, faults, file=file, key="environment")
    copies = made.copies if text is not None else (Copy(sources=(".",), destination=f"{made.workdir or '.'}/"),)
    files, env = placed(copies, paths)[:_FILES], {**docker.env, **made.env}
    return made.model_copy(update={"env": env, "files": files, "compose": compose})
