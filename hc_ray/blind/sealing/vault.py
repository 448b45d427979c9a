"""The vault: at the start of a sweep it splits a dataset into what a solver may see and what it may not.

Public half:  ``<public root>/<public digest>/{task.json,instruction.md,environment/}``, readable by every user.
Sealed half:  ``<sealed root>/<public digest>/{verifier.json,tests/,solution/}``, mode 0700, for ``hc_ray.blind`` alone.

Both are named from the *public* digest, so that nothing a solver can see depends on the hidden tests. A half is written
beside its place and renamed into it, so a reader never meets a part of one; sealing again changes nothing."""

import contextlib
import errno
import re
import secrets
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from hc_ray.blind.sealing.kept import keep
from hc_ray.blind.sealing.own_image import OwnImage
from hc_ray.blind.sealing.reading import Reading, read_folder, task_folders
from hc_ray.blind.sealing.tree import copy_tree
from hc_ray.domain.errors import DatasetError, VerifierError
from hc_ray.domain.task import RefusedTask, Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.whole_files import lay
from hc_ray.tasks.public_folder import TASK_FILE
from hc_ray.tasks.task_sections import Fault

VERIFIER_FILE = "verifier.json"
ARCHIVE_SUFFIX = ".sealed.tar.gz"
_CANARY_FILE = ".hc-ray-canary"
_OWN_IMAGE = "image"


class VerifierSpec(Value, extra="ignore"):
    """The sealed half of a task.toml, and what grading needs to know of the tests without reading them again."""

    schema_version: int = 1
    sealed_digest: str
    canary: str
    """A random token, planted in the sealed files; wherever else it turns up, something leaked."""
    timeout_sec: float
    env: dict[str, str] = {}
    user: str | None = None
    network: bool | None = None
    """None: as the task's own environment."""
    solution_env: dict[str, str] = {}
    mentions_pytest: bool
    """The tests' own text names pytest: a witness has to turn up."""
    has_solution: bool
    own: OwnImage | None = None
    """The image of the verifier's own."""


class SealedDataset(Value):
    """What sealing gave: the tasks to run, those refused, and the sealed digest of each by its public digest."""

    tasks: tuple[Task, ...]
    refused: tuple[RefusedTask, ...]
    sealed_digests: dict[str, str]
    unknown: dict[str, tuple[str, ...]] = {}
    """What is said of a key of task.toml that nobody reads → the names of the tasks that have it."""
    unproven: tuple[str, ...] = ()
    """Names of the tasks without a reference solution."""


def seal(dataset: Path, public_root: Path, sealed_root: Path) -> SealedDataset:
    """Split every task of ``dataset`` (a folder of tasks, one task, or a folder without tests beside which
    ``<name>.sealed.tar.gz`` lies). A task with a fault is refused with its reason and hides no other.
    Raises ``DatasetError`` when there is no task at all, or one root lies inside the other."""
    public_root, sealed_root = public_root.resolve(), sealed_root.resolve()
    if public_root == sealed_root or public_root in sealed_root.parents or sealed_root in public_root.parents:
        raise DatasetError(f"public root {public_root} and sealed root {sealed_root} must not contain each other")
    public_root.mkdir(parents=True, exist_ok=True)
    public_root.chmod(0o755)
    sealed_root.mkdir(parents=True, exist_ok=True)
    sealed_root.chmod(0o700)
    tasks: list[Task] = []
    refused: list[RefusedTask] = []
    digests: dict[str, str] = {}
    names: dict[str, str] = {}
    twins: dict[str, str] = {}
    unknown: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    unproven: list[str] = []
    with readings(dataset, sealed_root) as found:
        for reading in found:
            for one in reading.parsed.unknown:
                unknown[f"{one.field} {one.says}: {one.remedy}"] += (reading.name,)
            task, faults = reading.task, [*reading.faults, *doubles(reading, names, twins)]
            if faults or task is None:
                more = f" (and {len(faults) - 1} more: hc-ray tasks check)" if len(faults) > 1 else ""
                refused.append(RefusedTask(name=reading.name, reason=f"{faults[0].field}: {faults[0].says}{more}"))
                continue
            try:
                _seal_public(reading, task, public_root)
                spec = _seal_sealed(reading, task, sealed_root)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):  # no task can be
                    raise
                refused.append(RefusedTask(name=reading.name, reason=f"cannot be copied: {error}"))
                continue
            names[task.name] = twins[task.digest] = task.name
            digests[task.digest] = spec.sealed_digest
            tasks.append(task)
            if not spec.has_solution:
                unproven.append(task.name)
    return SealedDataset(
        tasks=tuple(tasks), refused=tuple(refused), sealed_digests=digests, unknown=unknown, unproven=tuple(unproven)
    )


def load_spec(sealed_root: Path, digest: str) -> VerifierSpec:
    """The sealed settings of a task. Raises ``VerifierError`` when they cannot be read."""
    path = sealed_root / digest / VERIFIER_FILE
    try:
        return VerifierSpec.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise VerifierError(f"the sealed half of task {digest[:12]} cannot be read: {type(error).__name__}") from None


def check_expected(spec: VerifierSpec, expected: str | None) -> VerifierSpec:
    """Raises ``VerifierError`` where tests or solution are not those that the sweep was planned with (its sealed
    digest; None: whatever there is): a dataset that is sealed anew meanwhile must not change verdicts."""
    if expected in (None, spec.sealed_digest):
        return spec
    raise VerifierError("the dataset's tests changed since this sweep was planned; start a new sweep")


def sealed_files(sealed_root: Path, digest: str, part: str) -> dict[str, tuple[bytes, bool]]:
    """Relative path → (content, executable) of ``tests`` or ``solution``, canary file left out. Raises
    ``VerifierError`` when they cannot be read."""
    root = sealed_root / digest / part
    found: dict[str, tuple[bytes, bool]] = {}
    try:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.name != _CANARY_FILE:
                found[path.relative_to(root).as_posix()] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    except OSError as error:
        raise VerifierError(f"the sealed {part} of task {digest[:12]} cannot be read: {error.strerror}") from None
    return found


def own_image_name(digest: str, sealed_digest: str) -> str:
    """What the image of a verifier's own goes by: it says nothing of what is in it."""
    return digest_of({"task": digest, "sealed": sealed_digest, "what": "verifier"})


def own_image_folder(sealed_root: Path, digest: str) -> Path:
    """What a place of sandboxes takes for its public root, to make those of the verifier's own image."""
    return sealed_root / digest / _OWN_IMAGE


@contextlib.contextmanager
def readings(dataset: Path, scratch: Path | None = None) -> Iterator[Iterator[Reading]]:
    """Every task of a dataset, read. Where its tests were shipped as an archive, that lies unpacked (mode 0700, under
    ``scratch``) for as long as the context lasts."""
    dataset = dataset.resolve()
    folders = task_folders(dataset)
    root = dataset
    archive = root.with_name(root.name + ARCHIVE_SUFFIX)
    if dataset in folders and not archive.is_file():
        # One task of a dataset that was shipped with an archive.
        root, archive = dataset.parent, dataset.parent.with_name(dataset.parent.name + ARCHIVE_SUFFIX)
    if not archive.is_file() or any((folder / "tests").exists() for folder in folders):
        yield (read_folder(folder) for folder in folders)
        return
    with tempfile.TemporaryDirectory(prefix=".unsealing-", dir=scratch) as unpacked:
        try:
            with tarfile.open(archive) as tar:
                # Python before 3.11.4 has no filters, and this tar is of our own making.
                tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                tar.extractall(unpacked)
        except (OSError, tarfile.TarError) as error:
            raise DatasetError(f"{archive} cannot be read ({error}): install hc-ray again") from None
        yield (read_folder(folder, Path(unpacked, folder.relative_to(root))) for folder in folders)


def doubles(reading: Reading, names: Mapping[str, str], digests: Mapping[str, str]) -> list[Fault]:
    """What a task has in common with an earlier one. ``names``, ``digests``: what those are told as, by their names and
    public digests."""
    found = []
    if reading.name in names:
        says = f"{reading.name!r} is also the name of {names[reading.name]}"
        found.append(Fault(field="task.name", says=says, remedy="give every task a unique name"))
    if reading.task and reading.task.digest in digests:
        says = f"a solver sees exactly the same task as {digests[reading.task.digest]}"
        found.append(Fault(field="instruction.md", says=says, remedy="remove one of the two"))
    return found


def _seal_public(reading: Reading, task: Task, root: Path) -> None:
    place = root / task.digest
    text = task.model_dump_json(indent=2)
    if place.is_dir():
        # Same digest: only what no solver sees (name, tags, resolved host variables) can differ.
        if (place / TASK_FILE).read_text() != text:
            keep(place / TASK_FILE, text.encode(), 0o644)
        return
    with tempfile.TemporaryDirectory(prefix=".sealing-", dir=root) as scratch:
        new = Path(scratch, place.name)
        copy_tree(
            reading.public / "environment", new / "environment", reading.environment, folder_mode=0o755, mask=0o755
        )
        keep(new / "instruction.md", task.instruction.encode(), 0o644)
        keep(new / TASK_FILE, text.encode(), 0o644)
        new.chmod(0o755)
        lay(new, place)


def _seal_sealed(reading: Reading, task: Task, root: Path) -> VerifierSpec:
    """Write the sealed half. Returns its settings."""
    place = root / task.digest
    with contextlib.suppress(VerifierError):
        before = load_spec(root, task.digest)
        if before.sealed_digest == reading.sealed_digest:
            return before
    verifier = reading.parsed.verifier
    spec = VerifierSpec(
        sealed_digest=reading.sealed_digest,
        canary=f"hc-ray-canary-{secrets.token_hex(16)}",
        timeout_sec=verifier.timeout_sec,
        env=verifier.env,
        user=None if verifier.user is None else str(verifier.user),
        network=None if verifier.network_mode is None else verifier.network_mode != "no-network",
        solution_env=reading.parsed.solution.env,
        mentions_pytest=mentions_pytest(reading),
        has_solution=any(entry.path == "solve.sh" for entry in reading.solution),
        own=reading.own,
    )
    with tempfile.TemporaryDirectory(prefix=".sealing-", dir=root) as scratch:
        new = Path(scratch, place.name)
        new.mkdir(mode=0o700)
        for part, tree in (("tests", reading.tests), ("solution", reading.solution)):
            copy_tree(reading.sealed / part, new / part, tree, folder_mode=0o700, mask=0o700)
            keep(new / part / _CANARY_FILE, f"{spec.canary}\n".encode())
        for script in ("tests/test.sh", "solution/solve.sh"):
            _plant(new / script, spec.canary)
        if spec.own is not None:
            # Laid out as a public root, for a place of sandboxes that only verifiers open.
            context = new / _OWN_IMAGE / own_image_name(task.digest, spec.sealed_digest) / "environment"
            built = reading.tests if spec.own.environment.dockerfile is not None else ()
            copy_tree(reading.sealed / "tests", context, built, folder_mode=0o700, mask=0o755)
        keep(new / VERIFIER_FILE, spec.model_dump_json(indent=2).encode())
        lay(new, place)
    return spec


def mentions_pytest(reading: Reading) -> bool:
    """Whether a script of the tests names pytest on a line that is no comment."""
    for entry in reading.tests:
        if not entry.path.endswith((".sh", ".py")):
            continue
        text = (reading.sealed / "tests" / entry.path).read_text(errors="replace")
        code = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        if any(re.search(r"\bpytest\b|\bpy\.test\b", line) for line in code):
            return True
    return False


def _plant(script: Path, token: str) -> None:
    """Append the token to a shell script as a comment, where that cannot change what the script does: not after an
    unfinished line, not where data may follow the code."""
    if not script.is_file():
        return
    content = script.read_bytes()
    if b"\0" in content or b"<<" in content or content.rstrip().endswith(b"\\"):
        return
    mode = script.stat().st_mode
    script.write_bytes(content + (b"" if content.endswith(b"\n") else b"\n") + f"# {token}\n".encode())
    script.chmod(mode)
