"""A pytest plugin: the second witness of a grading. Installed as ``hc_witness``, loaded by ``PYTEST_PLUGINS``.

It tells ``hc_grade`` (its distant parent) what every session collected, passed and failed, over a socket that it
inherited, never over the standard output. A session is named by a random token, sent when it starts, before any module
of the candidate is imported; a session that never ends, or an end without that token, counts against the candidate. The
socket is closed in everything this process forks or executes. Without the socket (in a worker of pytest-xdist, or where
a script closed it) the plugin is silent. An end names the tests that failed by the digests of their nodes. Where
``HC_WITNESS_NODES`` is set, it also tells each test's outcome by its node (the auditor asks for that). Standard library
only; any Python 3."""

import contextlib
import hashlib
import json
import os
import secrets
import socket
from typing import Any, Callable  # noqa: UP035 (images bring Pythons of any age)

VARIABLE = "HC_WITNESS_FD"
NODES = "HC_WITNESS_NODES"
LIMITS = {"bad": 20000, "nodes": 40000}
"""Characters: a message of more than 64 KiB would arrive cut, and count against the candidate."""


def _inherited() -> "socket.socket | None":
    """The socket of this grading; None where there is none. Its number leaves the environment at once."""
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    try:
        os.set_inheritable(int(number), False)
        channel = socket.socket(fileno=int(number))
    except OSError:
        return None
    os.register_at_fork(after_in_child=channel.close)
    return channel


def _teller() -> "Callable[[dict[str, Any]], None]":
    """``tell(message)``, which holds the only reference to the socket; a lost channel is the grader's to notice."""
    channel = _inherited()

    def tell(message: "dict[str, Any]") -> None:
        if channel is None or channel.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            channel.send(json.dumps(message).encode())

    tell({"type": "loaded"})
    return tell


def _digest(node: str) -> str:
    return hashlib.sha256(node.encode(errors="backslashreplace")).hexdigest()[:12]


class Witness:
    """Counts of one session."""

    def __init__(self, tell: "Callable[[dict[str, Any]], None]") -> None:
        self._tell = tell
        self._token = secrets.token_hex(16)
        self._counts = dict.fromkeys(("collected", "passed", "failed", "errors", "skipped", "xfailed", "xpassed"), 0)
        self._nodes: dict[str, str] | None = {} if _wants_nodes else None
        self._bad: dict[str, None] = {}
        """Nodes that failed or broke, in their order."""

    def pytest_sessionstart(self) -> None:
        self._tell({"type": "start", "session": self._token})

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._counts["errors"] += 1
            self._bad[report.nodeid] = None

    def pytest_collection_finish(self, session: Any) -> None:
        self._counts["collected"] = len(session.items)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if self._nodes is not None and (report.when == "call" or not report.passed):
            self._nodes[report.nodeid] = report.outcome
        if report.failed:
            self._bad[report.nodeid] = None
        expected_failure = hasattr(report, "wasxfail")
        if report.when != "call":
            if report.failed:
                self._counts["errors"] += 1
            elif report.skipped:
                self._counts["xfailed" if expected_failure else "skipped"] += 1
        elif report.passed:
            self._counts["xpassed" if expected_failure else "passed"] += 1
        elif report.failed:
            self._counts["failed"] += 1
        else:
            self._counts["xfailed" if expected_failure else "skipped"] += 1

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        told: dict[str, Any] = {"bad": [_digest(node) for node in self._bad], "nodes": self._nodes}
        told = {key: value for key, value in told.items() if value and len(json.dumps(value)) <= LIMITS[key]}
        self._tell({"type": "end", "session": self._token, "exit": int(exitstatus), **self._counts, **told})


_wants_nodes = bool(os.environ.pop(NODES, ""))
_tell = _teller()


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(Witness(_tell), "hc-witness-counts")
