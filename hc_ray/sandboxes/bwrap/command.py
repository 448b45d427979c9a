"""The layout of a bwrap sandbox: the host folders that it sees, the content of its root, and bwrap's command line.

The root is a folder of the sandbox's own, writable as in a container; over it lie, read-only, an allowlist of the
host's programs and libraries and the runner. Never ``/``, a home, the checkout, the venv, a dataset or a sweep
directory."""

import functools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hc_ray.domain.runner_paths import RUNNER_ROOT
from hc_ray.domain.task import Task
from hc_ray.machine.paths import configs_dir, data_root
from hc_ray.tasks.dockerfile import parse_dockerfile

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Trees of programs and libraries; links among them stay links."""
_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/localtime")
"""Paths in /etc that the host's programs need; no secrets."""
CLOSED = ("/proc", "/dev", "/sys")
"""The sandbox's own kernel file systems, which hold no state."""
_FORBIDDEN = (*CLOSED, RUNNER_ROOT, "/etc")
MAX_SPLIT = 64
"""The most entries of a host folder to bind one by one, if the task writes beside them."""
HOSTNAME = "sandbox"
UID = 1000
"""User and group id inside. Outside it is also an unprivileged user, never root."""
SHM_BYTES = 64 << 20
PATH = f"{RUNNER_ROOT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/root"
"""The home of a container's usual user, so that paths of instructions mean the same in both backends."""

_FOLDERS = {
    "/tmp": 0o1777, "/var": 0o755, "/var/tmp": 0o1777, "/var/log": 0o755, "/home": 0o755, "/root": 0o755, "/opt": 0o755,
    "/srv": 0o755, "/mnt": 0o755, "/run": 0o755, "/proc": 0o755, "/dev": 0o755, "/sys": 0o755, "/etc": 0o755,
    RUNNER_ROOT: 0o755,
}  # fmt: skip
_FILES = {
    "/etc/passwd": f"root:x:0:0::/:/usr/sbin/nologin\nuser:x:{UID}:{UID}::{HOME}:/bin/sh\n"
    "nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nuser:x:{UID}:\nnogroup:x:65534:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "/etc/hostname": f"{HOSTNAME}\n",
}


@dataclass
class Layout:
    """The layout of a root."""

    mounts: dict[str, Path] = field(default_factory=dict)
    """Place inside → folder or file of the host, bound read-only."""
    folders: dict[str, int] = field(default_factory=lambda: dict(_FOLDERS))
    """Folders of the root with their modes: the standard ones, the places of mounts, the working directory."""
    links: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    """Folders within mounts to hide, since they contain hc-ray's datasets or data, including sealed tests."""


@dataclass(frozen=True)
class Limits:
    """The resource limits of one sandbox."""

    memory: int
    """Bytes: of data a process (rlimit), and resident of all its processes (watchdog)."""
    storage: int
    """Bytes: of one file (rlimit), and of its whole state, holes counted (watchdog)."""
    processes: int
    paths: int = 200_000
    """Files, folders and links in its state (watchdog)."""


PROCESSES = 256
PROCESSES_A_CORE = 32
"""Allowed processes per core if the kernel schedules by session: each session gets an equal share of CPU time, so a few
hundred on two cores would leave hc-ray no time to end them."""


def most_processes() -> int:
    """Processes and threads that one sandbox may have."""
    if not _shared_by_sessions():
        return PROCESSES
    return min(PROCESSES, PROCESSES_A_CORE * (os.cpu_count() or 2))


@functools.cache
def _shared_by_sessions() -> bool:
    """Whether the kernel treats every session as a scheduling group, which it does without a cgroup of ours."""
    try:
        if Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() != "1":
            return False
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return False
    controllers = {name: path for _, names, path in groups for name in names.split(",")}
    return controllers.get("cpu", controllers.get("", "/")) == "/"


class Unplaceable(ValueError):
    """The task writes to a place reserved for the host's files; the message names it."""


def layout(writable: Collection[str], runner: Path, host: Path = Path("/")) -> Layout:
    """The root of a sandbox whose task writes into the folders ``writable``. Raises ``Unplaceable``."""
    placed = Layout()
    for path in writable:
        if path != "/" and any(path == place or path.startswith(f"{place}/") for place in _FORBIDDEN):
            raise Unplaceable(f"it writes into {path}, which is reserved in every bwrap sandbox")
    for tree in SYSTEM:
        source = host / tree.lstrip("/")
        if source.is_symlink():
            placed.links[tree] = str(source.readlink())
        elif source.is_dir():
            _place(tree, host, writable, placed)
    for tree in _ETC:
        source = host / tree.lstrip("/")
        if source.exists():
            placed.mounts[tree] = source
    placed.mounts[RUNNER_ROOT] = runner
    for path in writable:
        placed.folders.setdefault(path, 0o755)
    placed.files = {path: text for path, text in _FILES.items() if path not in placed.mounts}
    for path, source in placed.mounts.items():
        if source.is_dir():
            placed.folders.setdefault(path, 0o755)
        else:
            placed.files[path] = ""
    placed.folders.pop("/", None)
    placed.hidden = _hidden(placed.mounts)
    return placed


def _hidden(mounts: Mapping[str, Path]) -> tuple[str, ...]:
    """Folders of hc-ray within mounts. If it is installed among the host's programs, its datasets and possibly its data
    are there; hides them as whole folders, since the guard would reject command lines that name sealed files."""
    found, shown = set(), [(place, source.resolve()) for place, source in mounts.items()]
    for own in (configs_dir(), data_root()):
        real = own.resolve()
        for place, folder in shown if real.is_dir() else ():
            if real != folder and real.is_relative_to(folder):
                found.add(f"{place}/{real.relative_to(folder).as_posix()}")
    return tuple(sorted(found))


def shows(folder: Path, host: Path = Path("/")) -> bool:
    """Whether every bwrap sandbox could read this folder because it is among the host's programs."""
    real = folder.resolve()
    trees = [(host / tree.lstrip("/")).resolve() for tree in SYSTEM]
    return any(real.is_relative_to(tree) for tree in trees) and not real.is_relative_to(configs_dir().resolve())


def _place(tree: str, host: Path, writable: Collection[str], placed: Layout) -> None:
    """Bind a host tree as a whole, or entry by entry if the task writes below it."""
    source = host / tree.lstrip("/")
    if tree in writable and any(source.iterdir()):
        raise Unplaceable(f"it writes into {tree}, which contains the host's files")
    if not any(path == tree or path.startswith(f"{tree}/") for path in writable):
        placed.mounts[tree] = source
        return
    placed.folders[tree] = 0o755
    children = sorted(source.iterdir())
    if len(children) > MAX_SPLIT:
        raise Unplaceable(f"it writes below {tree}, where the host has {len(children)} entries")
    for child in children:
        path = f"{tree}/{child.name}"
        if child.is_symlink():
            placed.links[path] = str(child.readlink())
        elif child.is_dir():
            _place(path, host, writable, placed)
        elif child.is_file():
            placed.mounts[path] = child


def argv(bwrap: Path, root: Path, placed: Layout, init: Sequence[str], info: int) -> list[str]:
    """The command line that starts a sandbox; ``info`` is the descriptor on which bwrap reports its child."""
    command = [
        *(str(bwrap), "--unshare-all", "--unshare-user", "--disable-userns", "--new-session", "--die-with-parent"),
        *("--as-pid-1", "--uid", str(UID), "--gid", str(UID), "--hostname", HOSTNAME, "--info-fd", str(info)),
        *("--bind", str(root), "/"),
    ]
    for place, source in sorted(placed.mounts.items()):
        command += ["--ro-bind", str(source), place]
    for place in placed.hidden:
        command += ["--perms", "0755", "--size", "4096", "--tmpfs", place, "--remount-ro", place]
    command += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm"]
    command += ["--remount-ro", "/dev", "--chdir", "/", "--clearenv", "--setenv", "LC_ALL", "C.UTF-8"]
    return [*command, "--", *init]


def environment(task_env: dict[str, str]) -> dict[str, str]:
    """A command's environment variables: first the runner's, then the task's own."""
    env = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "HOSTNAME": HOSTNAME, **task_env}
    if not env["PATH"].startswith(f"{RUNNER_ROOT}/bin"):
        env["PATH"] = f"{RUNNER_ROOT}/bin:{env['PATH']}"
    return env


def written_folders(task: Task) -> set[str]:
    """The folders that a task's environment writes into: its working directory, its home, where COPY puts files."""
    environment_ = task.environment
    found = {environment_.workdir, environment_.env.get("HOME", HOME)}
    for copy in environment_.copies:
        into = copy.destination
        found.add(into if into.endswith("/") else str(PurePosixPath(into).parent))
    return {str(PurePosixPath(path)) for path in found}


_OFFICIAL = ("python", "debian", "ubuntu", "buildpack-deps", "gcc", "scratch", "bash")


def refusal(task: Task, *, host_programs: Collection[str]) -> str | None:
    """Why this backend cannot run a task, judged by the task alone; None if it can."""
    wants = task.environment
    if wants.compose:
        return "needs several containers (a compose file)"
    if wants.run_steps:
        return (
            f"its Dockerfile runs commands (RUN {wants.run_steps[0].removeprefix('RUN ')[:60]}): bwrap builds no images"
        )
    if wants.gpus:
        return "needs a GPU"
    if wants.network in ("public", "allowlist"):
        return "needs the network: a bwrap sandbox has none"
    user = task.agent_user or parse_dockerfile(wants.dockerfile or "").user or ""
    if user.partition(":")[0] not in ("", "root", "0"):
        return f"its commands run as the user {user}: a bwrap sandbox has no users but its own"
    base = wants.base or wants.docker_image
    if base is None:
        return None
    name = base.partition("@")[0].removeprefix("docker.io/").removeprefix("library/")
    repository, _, tag = name.partition(":")
    if repository not in _OFFICIAL or (repository == "python" and tag.startswith("2")):
        return f"its image {base} is of a kind of its own"
    if "alpine" in tag or "windows" in tag:
        return f"its image {base} is of a kind of its own"
    if repository in ("gcc", "buildpack-deps") and not {"gcc", "cc"} & set(host_programs):
        return f"its image {base} has a C compiler, this machine has none"
    return None


def host_programs() -> frozenset[str]:
    """Names of programs in ``/usr/bin`` and ``/usr/local/bin``, which tell which images the host can replace."""
    folders = ("/usr/bin", "/usr/local/bin")
    return frozenset(name for name in ("cc", "gcc") if any(os.access(f"{at}/{name}", os.X_OK) for at in folders))
