"""The driver's end of ``hc_serve``: the task's interpreter, started once a suite, which forks a child for every job.
Where it is lost another one does the job; where that is lost too, the job has done it. Standard library only; it runs
under the runner's Python inside a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from hc_ray.sandboxes.inside.suites import child

MYPY = False
if MYPY:
    from collections.abc import Sequence
    from typing import Any

GRACE = 5.0
"""Seconds beyond a job's own, after which the server is taken for lost."""
READY_SECONDS = 20.0
"""How long an interpreter may take to start, and to import pytest."""
_START = "import sys; sys.path[0] = sys.argv.pop(1); import hc_serve; hc_serve.main()"
"""Imported and not run as a file, so that its byte code is used."""


class Forks:
    """One server a suite, started when it is first needed."""

    def __init__(
        self,
        pythons: Sequence[Sequence[str]],
        workdir: Path,
        scratch: Path,
        limits: dict[str, int],
        *,
        imports: str = "",
    ) -> None:
        """The first of ``pythons`` (beginnings of command lines) that starts, and has a module to import, is taken.
        ``limits``: of each job, by the names of ``resource``."""
        self._pythons, self._limits, self._imports = list(pythons), limits, imports
        self._workdir, self._scratch = workdir, scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def server(self) -> int | None:
        """The number of its process, where it runs."""
        return self._process.pid if self._process else None

    def ask(self, job: dict[str, Any], seconds: float, *, again: bool = True) -> child.Run:
        """Exit code (None past the deadline), answer and the beginning of the standard error of one job. Raises
        ``ChildProcessError`` where two servers end before they have told."""
        try:
            return self._ask(job, seconds)
        except TimeoutError:  # it was stopped
            self.close()
            return None, b"", b""
        except (OSError, ValueError) as fault:
            self.close()
            if again:
                return self.ask(job, seconds, again=False)
            raise ChildProcessError(f"the interpreter that runs the calls ended, twice: {fault}") from None

    def _ask(self, job: dict[str, Any], seconds: float) -> child.Run:
        control = self._control or self._start()
        control.settimeout(seconds + GRACE)
        request = {"job": job, "cwd": str(self._workdir), "limits": self._limits, "seconds": seconds}
        data = json.dumps(request).encode() + b"\n"
        with child.nameless(self._scratch) as answer, child.nameless(self._scratch) as err:
            sent = socket.send_fds(control, [data], [answer.fileno(), err.fileno()])
            control.sendall(data[sent:])
            code = json.loads(control.makefile("rb").readline())["code"]  # nothing where the server is gone
            told, said = os.pread(answer.fileno(), child.ANSWER, 0), os.pread(err.fileno(), child.CUT, 0)
            return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code, told, said

    def _start(self) -> socket.socket:
        while True:
            mine, theirs = socket.socketpair()
            with theirs:
                command = [*self._pythons[0], "-c", _START, str(Path(__file__).parent), str(theirs.fileno())]
                self._process = subprocess.Popen(
                    [*command, self._imports], cwd=self._workdir, env=child.environment(self._scratch),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True, pass_fds=(theirs.fileno(),),
                )  # fmt: skip
            self._control, last = mine, len(self._pythons) == 1
            mine.settimeout(READY_SECONDS)
            with contextlib.suppress(*() if last else (OSError,)):
                if mine.recv(1) or last:
                    del self._pythons[1:]  # a machine that is busy later moves no test to another interpreter
                    return mine
            self.close()
            del self._pythons[0]

    def close(self) -> None:
        """End the server, and with it nothing else: every child was buried already."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._control = self._process = None
