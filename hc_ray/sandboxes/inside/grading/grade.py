"""Runs under the runner's Python inside the verifier's own sandbox: runs ``test.sh`` (``hc_probe`` has looked at the
image before).

The order comes as JSON on the standard input, so that no other process sees it; the answer is one line on the standard
output, ``<nonce> <json>``, where the nonce came with the order. Standard library only.

``{"command", "cwd", "env", "timeout", "logs", "user", "nonce"}`` (``user``: None for the image's, which the variable
``HC_IMAGE_USER`` names) → exit status, the raw reward files, what the witness said and the end of the output. Stale
reward files are removed first; whatever ``command`` started is dead before its reward files are read.
"""
# Started for every grading: no typing, no pathlib, and shutil where it is needed.
# ruff: noqa: PTH101, PTH103, PTH108, PTH110, PTH112, PTH114, PTH120, PTH123

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import time

from hc_ray.sandboxes.inside import processes

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any

KEPT = 64 << 10
REWARD_LIMIT = 1 << 20
REWARDS = ("reward.json", "reward.txt")
KILL_SECONDS = 2.0
"""How long what the tests left running may take to die."""


def run(order: dict[str, Any], become: Callable[[], None] | None = None) -> dict[str, Any]:
    """Run the tests once. ``become`` is called in a ``test.sh`` that runs as another user, before it starts."""
    logs = order["logs"]
    _fresh_logs(logs)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    user = order.get("user") or os.environ.pop("HC_IMAGE_USER", None)
    env = {**os.environ, **order["env"], "HC_WITNESS_FD": str(theirs.fileno())}
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(ours.close)
        try:
            process = subprocess.Popen(
                order["command"], cwd=order["cwd"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(theirs.fileno(),),
                **_identity(user, become),
            )  # fmt: skip
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        finally:
            theirs.close()
        output, messages, timed_out = _watch(process, ours, started + order["timeout"])
        # Daemons that left their session too, so that nobody rewrites a reward file while it is read.
        processes.kill_below(KILL_SECONDS, processes.reap)
    return {
        "exit": process.poll(),
        "timed_out": timed_out,
        "seconds": time.monotonic() - started,
        "rewards": {name: _reward(f"{logs}/{name}") for name in REWARDS},
        "witness": messages,
        "output": base64.b64encode(output).decode(),
    }


def _identity(user: str | None, become: Callable[[], None] | None) -> dict[str, Any]:
    """Popen's arguments to run as another user (a name or a number); only root can. Users are read from the file
    and not by the C library, which would load what the image, or a candidate in it, names in nsswitch.conf."""
    if not user or os.geteuid() != 0:
        return {}
    name = user.split(":")[0]
    entry = next((entry for entry in _users() if name in (entry[0], entry[2])), None)
    if entry is None and not name.isdigit():
        raise KeyError(f"no user {name} in /etc/passwd")
    uid, gid = (int(name), int(name)) if entry is None else (int(entry[2]), int(entry[3]))
    more = [int(one[2]) for one in _entries("/etc/group") if entry and entry[0] in one[3].split(",")]
    return {"user": uid, "group": gid, "extra_groups": more, "preexec_fn": become}


def _users() -> list[list[str]]:
    return [one for one in _entries("/etc/passwd") if one[3].isdigit()]


def _entries(path: str) -> list[list[str]]:
    try:
        with open(path, errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [one for one in (line.split(":") for line in lines) if len(one) > 3 and one[2].isdigit()]


def _fresh_logs(logs: str) -> None:
    """Harbor's log folders, open to every user, real folders and without a reward of before."""
    above = os.path.dirname(logs)
    for folder in (above, logs, f"{above}/agent", f"{above}/artifacts"):
        if os.path.islink(folder) or (os.path.exists(folder) and not os.path.isdir(folder)):
            os.unlink(folder)
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o777)
    for path in (f"{logs}/{name}" for name in REWARDS):
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)


def _watch(process: subprocess.Popen[bytes], witness: socket.socket, deadline: float) -> tuple[bytes, list[Any], bool]:
    """Follow the output and the witness until the command ends or its time is up."""
    assert process.stdout is not None
    out = process.stdout.fileno()
    os.set_blocking(out, False)
    head, tail = b"", b""
    messages: list[Any] = []
    timed_out, sources = False, [out, witness.fileno()]
    drained_by = 0.0
    while True:
        now = time.monotonic()
        if not drained_by:
            if now >= deadline:
                timed_out = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.poll() is not None:
                # What is still in the pipes is taken, but nobody who holds one open is waited for.
                drained_by = now + 1.0
        ready, _, _ = select.select(sources, [], [], 0 if drained_by else 0.02)
        if out in ready:
            piece = _read(out)
            if not piece:
                sources.remove(out)
            room = KEPT // 2 - len(head)
            head, tail = head + piece[:room], (tail + piece[room:])[-KEPT // 2 :]
        if witness.fileno() in ready:
            message = witness.recv(1 << 16)
            if not message:
                sources.remove(witness.fileno())
            elif len(messages) < 1000:
                messages.append(_message(message))
        if drained_by and (not ready or now > drained_by):
            return head + tail, messages, timed_out


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:
        return b""


def _message(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return {"type": "garbled"}


def _reward(path: str) -> str | None:
    """A reward file, base64; None where there is none. Anything but a regular file of sane size counts as empty."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        content = file.read(REWARD_LIMIT + 1)
    return base64.b64encode(content).decode() if len(content) <= REWARD_LIMIT else ""


def guard() -> None:
    """Adopt orphans; and let no process of the same user read our memory or our open files (the nonce, the answer)."""
    processes.adopt_orphans()
    processes.hide()


def main() -> None:
    order = json.load(sys.stdin)
    guard()
    answer = run(order)
    sys.stdout.write(f"{order['nonce']} {json.dumps(answer)}\n")
