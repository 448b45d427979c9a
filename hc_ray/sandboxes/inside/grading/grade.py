"""Runs under the runner's Python inside the verifier's own sandbox: runs ``test.sh`` (``hc_probe`` has looked at the
image before).

The order comes as JSON on the standard input, so that no other process sees it; the answer is one line on the standard
output, ``<nonce> <json>``, where the nonce came with the order. Standard library only.

``{"command", "cwd", "env", "timeout", "logs", "user", "nonce"}`` (``user``: None for the image's, which the variable
``HC_IMAGE_USER`` names) → exit status, the raw reward files, what the witness said and the end of the output. Stale
reward files are removed first; whatever ``command`` started is dead before its reward files are read.
"""
# Started for every grading: no typing, no pathlib, and shutil where it is needed.

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import stat
import sys
import time

from hc_ray.sandboxes.inside import processes
from hc_ray.sandboxes.inside.account import Account, account
from hc_ray.sandboxes.inside.leader import DRAIN_SECONDS, Leader

MYPY = False
if MYPY:
    from collections.abc import Callable
    from typing import Any

KEPT = 64 << 10
REWARD_LIMIT = 1 << 20
REWARDS = ("reward.json", "reward.txt")
WITNESS = 73
"""The number under which ``test.sh`` has the witness's socket: none that scripts use for files of their own."""
MESSAGES = 1000
"""Of the witness's, that are kept; more are no testimony."""


class GradingLeader(Leader):
    """``test.sh`` with all that it starts, and what the witness says meanwhile."""

    kill_seconds = 2.0

    def __init__(self, order: dict[str, Any], user: Account | None, become: Callable[[], None] | None) -> None:
        super().__init__({**order, "argv": order["command"], "limit": sys.maxsize}, b"")
        self.user, self.become = user, become
        self.head, self.tail = b"", b""
        self.messages: list[Any] = []
        self.witness, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.passed = (os.dup(theirs.fileno()),)
        self.other_end = theirs
        self.watch.register(self.witness.fileno(), self._hear)

    def settle(self) -> dict[str, str]:
        os.dup2(1, 2)  # one output, in its true order
        os.dup2(3, WITNESS)
        os.close(3)
        if self.user is not None:
            self.user.become()
            if self.become is not None:
                self.become()
        return {**os.environ, **self.request["env"], "HC_WITNESS_FD": str(WITNESS)}

    def take(self, end: int, data: bytes) -> None:
        room = KEPT // 2 - len(self.head)
        self.head, self.tail = self.head + data[:room], (self.tail + data[room:])[-KEPT // 2 :]

    def _hear(self, witness: int) -> None:
        message = self.witness.recv(1 << 16)
        if not message:  # its other end is open here too: somebody said nothing, or that nothing more is to come
            self.watch.unregister(witness)
            self.messages.append({"type": "silenced"})
        elif len(self.messages) <= MESSAGES:
            self.messages.append(_message(message) if len(self.messages) < MESSAGES else {"type": "too many"})

    def to_its_end(self) -> tuple[int | None, bool]:
        """The exit code, and whether the time was up. All that was started is dead then, daemons that left their
        session too, so that nobody rewrites a reward file while it is read."""
        code, timed_out, _ = self.lead()
        processes.kill_below(self.kill_seconds, self.reap, alone=True)
        until = time.monotonic() + DRAIN_SECONDS
        while self.watch.turn(0) and time.monotonic() < until:  # what is still in the pipes
            pass
        return code, timed_out


def run(
    order: dict[str, Any],
    become: Callable[[], None] | None = None,
    beside: tuple[int, Callable[[int], object]] | None = None,
) -> dict[str, Any]:
    """Run the tests once. ``become`` is called in a ``test.sh`` that runs as another user, before it starts;
    ``beside``: a descriptor that is heard meanwhile, and by what."""
    logs = order["logs"]
    named = order.get("user") or os.environ.pop("HC_IMAGE_USER", None)
    user = None
    if named and os.geteuid() == 0:
        user = account(named, _text("/etc/passwd"), _text("/etc/group"))
        if user is None:
            return {"error": f"no user {named} in /etc/passwd"}
    _fresh_logs(logs, user)
    tests = GradingLeader(order, user, become)
    if beside is not None:
        tests.watch.register(*beside)
    code, timed_out = tests.to_its_end()
    owners = {os.geteuid(), *([user.uid] if user is not None else [])}
    return {
        "exit": code,
        "timed_out": timed_out,
        "rewards": {name: _reward(f"{logs}/{name}", owners) for name in REWARDS},
        "witness": tests.messages,
        "output": base64.b64encode(tests.head + tests.tail).decode(),
    }


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _fresh_logs(logs: str, user: Account | None) -> None:
    """Harbor's log folders, real ones that are open to every user, without a reward of before. Where the reward will
    lie, nobody writes but the user of ``test.sh``: whoever may write there can move a file of that user's there."""
    above = os.path.dirname(logs)
    for folder in (above, logs, f"{above}/agent", f"{above}/artifacts"):
        if os.path.islink(folder) or (os.path.exists(folder) and not os.path.isdir(folder)):
            os.unlink(folder)
        os.makedirs(folder, exist_ok=True)
        with contextlib.suppress(OSError):
            os.chmod(folder, {above: 0o1777, logs: 0o755}.get(folder, 0o777))
    if user is not None:
        os.chown(logs, user.uid, user.gid)
    for path in (f"{logs}/{name}" for name in REWARDS):
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)


def _message(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return {"type": "garbled"}


def _reward(path: str, owners: set[int]) -> str | None:
    """A reward file, base64; None where there is none. Anything but a regular file of sane size counts as empty, and so
    does one of another user, where the tests have opened the folder to those as whom they run what they test."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid not in owners:
            return ""
        content = file.read(REWARD_LIMIT + 1)
    return base64.b64encode(content).decode() if len(content) <= REWARD_LIMIT else ""


def main() -> None:
    order = json.load(sys.stdin)
    processes.hide()  # no process of the same user may read the nonce or the answer
    answer = run(order)
    sys.stdout.write(f"{order['nonce']} {json.dumps(answer)}\n")
