"""``hc-ray tasks check``: validates any folder of Harbor tasks. Every fault names task, field, what is wrong and the
remedy; one bad task never hides the others, and nothing here stops at the first fault."""

import re
from pathlib import Path

from hc_ray.blind.sealing.reading import Reading
from hc_ray.blind.sealing.vault import doubles, readings
from hc_ray.domain.value import Value
from hc_ray.tasks.task_sections import Fault as TaskFault

_REWARD = re.compile(rb"reward\.(txt|json)|/logs/verifier")
_CODE = (".py", ".sh", ".js", ".ts", ".c", ".rs", ".go", ".rb", ".pl")
_READ_LIMIT = 1 << 20


class Fault(TaskFault):
    """One fault of one task."""

    task: str
    """The task folder, relative to the dataset (its name where the dataset is one task)."""


class CheckReport(Value):
    """The data of ``tasks check --json``."""

    schema_version: int = 1
    tasks: int
    """Number of task folders checked."""
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()
    """Warnings, which are no reason to refuse a task."""


def check(folder: Path) -> CheckReport:
    """Validate a dataset or a single task. Raises ``DatasetError`` when there is no task at all."""
    faults, warnings = list[Fault](), list[Fault]()
    names: dict[str, str] = {}
    digests: dict[str, str] = {}
    count = 0
    dataset = folder.resolve()
    with readings(folder) as found:
        for reading in found:
            count += 1
            path = reading.public.resolve()
            task = path.name if path == dataset else path.relative_to(dataset).as_posix()
            own = [*reading.faults, *doubles(reading, names, digests)]
            names.setdefault(reading.name, task)
            if reading.task is not None:
                digests.setdefault(reading.task.digest, task)
            if not reading.parsed.multi_step:
                own += [*_tests(reading), *_solution(reading), *_line_ends(reading), *_leaks(reading)]
            faults += [Fault(task=task, **fault.model_dump()) for fault in own]
            doubts = [*reading.parsed.unknown, *_volumes(reading)]
            warnings += [Fault(task=task, **one.model_dump()) for one in doubts]
    return CheckReport(tasks=count, faults=tuple(faults), warnings=tuple(warnings))


def _tests(reading: Reading) -> list[TaskFault]:
    """Check that some file of the tests writes a reward."""
    if not any(entry.path == "test.sh" for entry in reading.tests):
        return []
    for entry in reading.tests:
        if _REWARD.search(_head(reading.sealed / "tests" / entry.path)):
            return []
    remedy = "write 1 or 0 to /logs/verifier/reward.txt"
    return [TaskFault(field="tests/test.sh", says="nothing in tests/ writes a reward", remedy=remedy)]


def _solution(reading: Reading) -> list[TaskFault]:
    if any(entry.path == "solve.sh" for entry in reading.solution):
        return []
    says = "is missing: without a reference solution nothing shows that the tests can pass"
    return [TaskFault(field="solution/solve.sh", says=says, remedy="write a script that solves the task")]


def _line_ends(reading: Reading) -> list[TaskFault]:
    """Check for Windows line ends in a script's first line, which no shell accepts."""
    scripts = [f"{part}/{name}" for part, name in (("tests", "test.sh"), ("solution", "solve.sh"))]
    return [
        TaskFault(field=script, says="has the line ends of Windows, CR LF", remedy="write it with LF")
        for script in scripts
        if (path := reading.sealed / script).is_file() and _head(path).partition(b"\n")[0].endswith(b"\r")
    ]


def _volumes(reading: Reading) -> list[TaskFault]:
    """Places whose work a fork lacks, and a submission where the image has something there."""
    if reading.task is None or not (volumes := reading.task.environment.volumes):
        return []
    says = f"has VOLUME {' '.join(volumes)}: Docker leaves it out of a container's copies, so work there can be lost"
    return [TaskFault(field="environment/Dockerfile", says=says, remedy="remove that line")]


def _leaks(reading: Reading) -> list[TaskFault]:
    """Check for tests or solutions that a solver would find in its image."""
    found = []
    made = reading.task.environment if reading.task else None
    for copy in made.copies if made else ():
        for source in copy.sources:
            # Within the build context, which is environment/, what is called tests is the task's own.
            if source.strip("/").split("/")[0] == "..":
                says = f"copies {source} into the image, from outside of environment/"
                remedy = "put it into environment/, but neither tests nor solution"
                found.append(TaskFault(field="environment/Dockerfile", says=says, remedy=remedy))
    hidden = {
        entry.sha256: f"{part}/{entry.path}"
        for part, tree in (("tests", reading.tests), ("solution", reading.solution))
        for entry in tree
        # Data may lie on both sides on purpose (tests compare with it); code has no reason to.
        if entry.path.endswith(_CODE) and (reading.sealed / part / entry.path).stat().st_size > 0
    }
    for entry in reading.environment:
        if entry.target is None and entry.sha256 in hidden:
            says = f"is the same file as {hidden[entry.sha256]}"
            remedy = "remove it from the environment, where a solver can read it"
            found.append(TaskFault(field=f"environment/{entry.path}", says=says, remedy=remedy))
    return found


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_READ_LIMIT)
