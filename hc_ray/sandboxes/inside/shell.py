"""Runs one shell command as a step of a session, under the runner's Python inside a sandbox: working directory and
exported variables carry over from step to step, while every step is a shell of its own, so that its end is certain.
Standard output and standard error go into one file in their true order, standard input is closed.

Standard input: ``{"command", "place", "number", "workdir", "timeout", "most", "shown"}``. Standard output, one JSON
object: ``exit_code`` (None where the command was stopped), ``stopped`` (``timeout``, ``output`` or empty), ``cwd``,
``path`` (the file with the whole output), ``size``, ``lines``, ``head`` and ``tail``. Standard library only.

What a step leaves running lives on, with the file for its output: a service needs no redirection."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

MYPY = False
if MYPY:
    from typing import Any

# Started for every command, and pathlib and typing would double the time that it takes to start.

STEP = (
    '[ -f "$1/exports" ] && . "$1/exports"; '
    "trap \"__code=\\$?; export -p > '$1/exports'; pwd > '$1/cwd'; exit \\$__code\" EXIT; "
    '__command="$1/command.sh"; set --; . "$__command"'
)
"""What the shell is given: the session's variables, then the command, then the session's state. The command comes in a
file, since an argument may have 128 KiB at most."""
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "TERM": "dumb", "DEBIAN_FRONTEND": "noninteractive"}
"""Without a terminal no pager and no question of an installer is answered."""
POLL = (0.002, 0.05)


def step(order: "dict[str, Any]") -> "dict[str, Any]":
    """Run the command and say how it ended and what it wrote."""
    place, shell = order["place"], shutil.which("bash") or "sh"
    os.makedirs(place, exist_ok=True)
    out = os.path.join(place, f"output-{order['number']}.txt")
    cwd = where(place, order["workdir"])
    cwd = cwd if os.path.isdir(cwd) else order["workdir"]
    with open(os.path.join(place, "command.sh"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(order["command"])
    with open(out, "wb") as sink:
        child = subprocess.Popen(
            [shell, "-c", STEP, shell, place],
            stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, cwd=cwd,
            env={**os.environ, **QUIET, "PWD": cwd}, start_new_session=True,
        )  # fmt: skip
    stopped = wait(child, out, time.monotonic() + order["timeout"], order["most"])
    code = None if stopped else child.returncode
    return {"exit_code": code, "stopped": stopped, "cwd": where(place, order["workdir"]), "path": out,
            **excerpt(out, order["shown"])}  # fmt: skip


def wait(child: "subprocess.Popen[bytes]", out: str, deadline: float, most: int) -> str:
    """Wait for the end; past the deadline, or with more output than there may be, the step's group is killed."""
    pause, stopped = POLL[0], ""
    while child.poll() is None:
        if time.monotonic() > deadline:
            stopped = "timeout"
        elif os.path.getsize(out) > most:
            stopped = "output"
        if stopped:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            break
        time.sleep(pause)
        pause = min(2 * pause, POLL[1])
    return stopped


def where(place: str, workdir: str) -> str:
    """The session's working directory."""
    try:
        with open(os.path.join(place, "cwd"), encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n") or workdir
    except OSError:
        return workdir


def excerpt(path: str, shown: int) -> "dict[str, Any]":
    """The output, of more than ``shown`` bytes a third from its beginning and two thirds from its end, in whole lines
    where it has any."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        if size <= shown:
            return {"size": size, "lines": 0, "head": file.read().decode("utf-8", "replace"), "tail": ""}
        head = file.read(shown // 3)
        head = head[: head.rfind(b"\n") + 1] or head
        file.seek(size - 2 * shown // 3)
        tail = file.read(2 * shown // 3)
        tail = tail[tail.find(b"\n") + 1 :] or tail
        file.seek(len(head))
        lines, left = 0, size - len(head) - len(tail)
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            lines, left = lines + part.count(b"\n"), left - len(part)
    return {"size": size, "lines": lines, "head": head.decode("utf-8", "replace"),
            "tail": tail.decode("utf-8", "replace")}  # fmt: skip


def main() -> None:
    sys.stdout.write(json.dumps(step(json.load(sys.stdin))))
