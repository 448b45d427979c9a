"""Leftovers of dead processes on a machine, and how to distinguish them from what belongs to others.

A temporary folder carries its owner's label in a file, a child process in its environment. A process that wrote its
title over its environment (some of Ray's do) is known by what it writes: files of a folder whose owner is dead. What
has no label, or one of another machine, or one whose owner lives, is left alone, whatever it is called."""

import contextlib
import os
import select
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hc_ray.machine.owner import is_leftover, label, on_own_disk
from hc_ray.machine.paths import data_root

OWNER_FILE = ".hc-ray-owner"
OWNER_VARIABLE = "HC_RAY_OWNER"
"""In the environment of child processes that could outlive their owner; never in a sandbox's."""
DEATH_SECONDS = 10.0
"""Seconds to wait for a killed process, on a busy machine."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command: of Ctrl-C, of a scheduler, of a closed terminal."""
PATIENCE = 10.0
"""Seconds that a clean-up may take before a further signal interrupts it."""
OLD_SECONDS = 3600.0
"""What carries no label is a leftover after this: no build takes a minute, no download more than half of it."""
FAR = 86_400.0
"""Seconds by which no clock of another machine is thought to be wrong."""

_SCRATCH = ("runner/.build-*", "bin/.build-*", "models/*/.pull-*", "keys/.new-*", ".unsealing-*")
"""Below ``data_root()``."""


def passed_over(number: int) -> bool:
    """Whether a signal of ``ENDING`` is to do nothing, as ``nohup`` says it of a closed terminal. A shell says it of
    Ctrl-C to what it starts in the background, but who sends that signal to a command means the command."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """The handlers of ``ENDING`` are afterwards what they were before: Ray puts others in their place, and an event
    loop gives back none that it took. Only in the main thread, which alone has them."""
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler is not None:  # not one of another language's
                    signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """For the ending of processes, which half done would leave some: the signals of ``ENDING`` do nothing meanwhile,
    until ``PATIENCE`` is over. Only in the main thread, which alone is interrupted."""
    began = time.monotonic()

    def late(*_: object) -> None:
        if time.monotonic() - began > PATIENCE:
            raise KeyboardInterrupt

    with handlers_kept():
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if not passed_over(number):
                    signal.signal(number, late)
        yield


def owned_folder(kind: str, *, parent: Path | None = None) -> Path:
    """A new temporary folder of mode 0700 that carries this process's label."""
    folder = Path(tempfile.mkdtemp(prefix=f"hc-ray-{kind}-", dir=parent))
    (folder / OWNER_FILE).write_text(label())
    return folder


def owned_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process, with this process's label."""
    return {**environment, OWNER_VARIABLE: label()}


def reap_folders(*, dry: bool = False) -> list[str]:
    """Remove temporary folders of dead owners and return their paths; ``dry`` removes nothing."""
    dead = _dead_folders()
    for folder in () if dry else dead:
        remove_folder(folder)
    return [str(folder) for folder in dead]


def _dead_folders() -> list[Path]:
    """This user's temporary folders whose owners are dead."""
    parents = sorted({Path(tempfile.gettempdir()), Path("/tmp")})
    folders = [folder for parent in parents for folder in sorted(parent.glob("hc-ray-*"))]
    own = {parent: on_own_disk(parent) for parent in parents}
    labels = {folder: said for folder in folders if (said := _label_of(folder)) is not None}
    return [one for one, said in labels.items() if (is_leftover(said, own=own[one.parent]) if said else _is_old(one))]


def _is_old(path: Path) -> bool:
    """Whether nobody can be making it any more. Nobody's is a link, and what is gone."""
    with contextlib.suppress(FileNotFoundError):
        state = path.lstat()
        old = OLD_SECONDS if on_own_disk(path) else OLD_SECONDS + FAR  # a file server's times are by its own clock
        return not stat.S_ISLNK(state.st_mode) and time.time() - state.st_mtime > old
    return False


def remove_folder(folder: Path) -> None:
    """Remove a folder into which something that dies may still write."""
    for attempt in range(5):
        if attempt:
            time.sleep(0.1)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def _label_of(folder: Path) -> str | None:
    """The label of a folder of this user, empty where the power went before it was on the disk; None for anything
    else."""
    try:
        here = folder.lstat()
        if not stat.S_ISDIR(here.st_mode) or here.st_uid != os.geteuid():
            return None
        descriptor = os.open(folder / OWNER_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor) as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            return None
        return stream.read(400).strip("\0\n ")


def reap_processes(*, dry: bool = False) -> list[str]:
    """Kill this user's processes that carry a dead owner's label, or write into a dead owner's folder; answers what
    they were."""
    return end_processes(is_leftover, _dead_folders(), dry=dry)


def end_processes(chosen: Callable[[str], bool], folders: Sequence[Path] = (), *, dry: bool = False) -> list[str]:
    """Kill the processes of this user whose label is chosen or that have a file below one of ``folders`` open for
    writing, this one excepted, and wait until they are dead; answers number and name of each."""
    ended = []
    inside = tuple(f"{folder}/" for folder in folders)

    def ours(pid: int) -> bool:
        said = label_of(pid)
        return bool(said and chosen(said)) or (bool(inside) and said is None and _writes_below(pid, inside))

    with contextlib.ExitStack() as places:
        dying = select.poll()
        for pid in sorted(own_processes()):
            if pid == os.getpid() or not ours(pid):
                continue
            with contextlib.suppress(OSError):
                # The descriptor pins the process: the number cannot become another's between the look and the signal.
                place = os.pidfd_open(pid)
                places.callback(os.close, place)
                if not ours(pid):
                    continue
                name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
                if not dry:
                    signal.pidfd_send_signal(place, signal.SIGKILL)
                    dying.register(place, select.POLLIN)
                ended.append(f"process {pid} {name}")
        left, until = 0 if dry else len(ended), time.monotonic() + DEATH_SECONDS
        while left and (over := dying.poll(max(0.0, until - time.monotonic()) * 1000)):
            for place, _ in over:
                dying.unregister(place)
            left -= len(over)
    return ended


def own_processes() -> Iterator[int]:
    """Numbers of this user's living processes; none where there is no ``/proc``."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.geteuid():
                yield int(folder.name)


def _writes_below(pid: int, inside: tuple[str, ...]) -> bool:
    """Whether a process has a file below one of these folders open for writing. Who only reads is nobody's."""
    with contextlib.suppress(OSError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError, ValueError, StopIteration):
                if str(one.readlink()).startswith(inside):
                    lines = Path(f"/proc/{pid}/fdinfo/{one.name}").read_text().splitlines()
                    flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
                    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def label_of(pid: int) -> str | None:
    """The owner whose label a process was started with; None for none."""
    try:
        block = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    prefix = f"{OWNER_VARIABLE}=".encode()
    return next((line[len(prefix) :].decode() for line in block.split(b"\0") if line.startswith(prefix)), None)


def reap_scratch(*, dry: bool = False) -> list[str]:
    """Remove what builds and downloads that were killed left below ``data_root()``; answers the paths."""
    removed = []
    for path in filter(_is_old, sorted(path for pattern in _SCRATCH for path in data_root().glob(pattern))):
        with contextlib.suppress(FileNotFoundError):  # whoever made it has ended meanwhile
            if not dry:
                remove_folder(path) if path.is_dir() else path.unlink()
            removed.append(str(path))
    return removed
