"""What a test sees of running processes from outside: who they are, what they listen on, and how long they live."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hc_ray.machine.cleanup import label_of, own_processes

LISTENS = "0A"


def ran(*command: object, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, **options)


def program(path: Path, text: str) -> Path:
    """Write a shell program."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def read(pid: int, name: str) -> str:
    """A file of a process's folder in ``/proc``; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """State, parent and so on; nothing of a process that is none."""
    return read(pid, "stat").rpartition(")")[2].split()


def _all() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def alive(pid: int) -> bool:
    return bool(fields := _stat(pid)) and fields[0] not in "ZX"


def born(pid: int) -> int | None:
    """When a process began, in the kernel's ticks: with its number, who it is. None where there is none."""
    return int(fields[19]) if (fields := _stat(pid)) else None


def family(*pids: int) -> set[int]:
    """Processes with all that carry their labels, and all below these."""
    labels = tuple(f"{pid}-" for pid in pids)
    mine = {*pids} | {one for one in own_processes() if (label_of(one) or "").startswith(labels)}
    parents = {pid: int(fields[1]) for pid in _all() if (fields := _stat(pid))}
    while below := {one for one, parent in parents.items() if parent in mine and alive(one)} - mine:
        mine |= below
    return {one for one in mine if alive(one)}


def named(pids: Iterable[int], name: str) -> list[int]:
    return sorted(pid for pid in pids if name in read(pid, "cmdline"))


def carrying(marker: str, name: str = "") -> list[int]:
    """Living processes that inherited a marker in their environment and have a word in their command line."""
    return [pid for pid in _all() if name in read(pid, "cmdline") and marker in read(pid, "environ") and alive(pid)]


def listening(pids: Iterable[int]) -> list[tuple[str, int, str]]:
    """Address, port and process name of every TCP socket that one of the processes listens on."""
    holders: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = str(entry.readlink())
                    if target.startswith("socket:["):
                        holders[target[8:-1]] = pid
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in holders:
                address, _, port = words[1].partition(":")
                name = Path(f"/proc/{holders[words[9]]}/comm").read_text().strip()
                found.append((_dotted(address), int(port, 16), name))
    return found


def _dotted(address: str) -> str:
    """An address of ``/proc/net/tcp*``: little-endian words. IPv4 inside IPv6 is IPv4."""
    raw = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if len(raw) == 16 and raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    if len(raw) == 4:
        return ".".join(map(str, raw))
    return "::1" if raw == bytes(15) + b"\1" else raw.hex()


def wait(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The condition's first true answer; fails the test when it does not come in time."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)
    return found


def runs_inside(docker: Any, container: str, command: str) -> bool:
    from docker.errors import APIError

    try:
        return any(command in " ".join(row) for row in docker.top(container)["Processes"] or ())
    except APIError:
        return False


def holding(folder: Path, needles: dict[str, str]) -> list[str]:
    """Which of the needles stand in which file below a folder, names of files included: every byte is read."""
    found = []
    for parent, _, files in os.walk(folder):
        for file in files:
            path = Path(parent, file)
            try:
                data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            except OSError:
                continue
            found += [
                f"{name} in {path}"
                for name, value in needles.items()
                if value.encode() in data or value.encode() in os.fsencode(path)
            ]
    return found


def shown(pid: int) -> str:
    words = read(pid, "cmdline").replace("\0", " ")[:200]
    labels = [line for line in read(pid, "environ").split("\0") if line.startswith("HC_RAY_OWNER")]
    return f"{pid} {(_stat(pid) or ['gone'])[0]} {words} {labels}"
