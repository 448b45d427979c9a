"""Drives every self-test of a suite, one at a time, under the runner's Python inside a sandbox: calls under the task's
own ``python3``, commands by ``sh -c``, C programs by ``cc``, checks by pytest.

    hc_driver PLAN.json

Each test is run ``repeats`` times, in its own child process, against the workdir exactly as the candidate left it, plus
the test's own files: what a test changed there, or of files elsewhere that tests name, is put back from a private copy
before the next one. (In place, because scripts name their files by absolute paths.) The report is JSON lines on the
standard output that this process was started with, a pipe that no child inherits; the tests write to standard error."""
# Started for every suite: what is slow to import (typing, tempfile, pytest) is left out, or imported where needed.

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

from hc_ray.sandboxes.inside import processes
from hc_ray.sandboxes.inside.suites import child
from hc_ray.sandboxes.inside.suites.forks import Forks

MYPY = False
if MYPY:
    import io
    from typing import Any

    Result = dict[str, Any]
else:
    Result = dict

TIMEOUTS_PER_SUITE = 2
CHECK_WRITES = 1 << 30
"""Bytes of the largest file that a check may make a program write."""
BURIAL_SECONDS = 2.0
"""What it may take to end what a test left running."""


def cell(outcome: str, observed: str | None = None, detail: str = "") -> Result:
    return {"outcome": outcome, "observed": observed[: child.CUT] if observed else observed,
            "detail": detail[: child.CUT]}  # fmt: skip


class Driver:
    """Runs tests against one candidate's workdir."""

    def __init__(self, plan: dict[str, Any], scratch: Path) -> None:
        self.plan, self.scratch = plan, scratch
        self.workdir, self.files = Path(plan["workdir"]), child.Files(plan["workdir"], plan["outside"], scratch)
        self.python = shutil.which("python3") or sys.executable
        self.slow: set[str] = set()
        """Tests that ran out of time: they are not run again."""
        self.ran: set[str] = set()
        limits = {"CPU": child.CPU_SECONDS, "FSIZE": child.WRITES, "CORE": 0, "AS": child.MEMORY}
        self.calls = Forks([[self.python]], self.workdir, scratch, limits)
        # Under the task's own interpreter, so that its packages can be imported; where that has no pytest and cannot
        # borrow the runner's, under the runner's.
        pythons = [[self.python], ["env", f"PYTHONPATH={plan['pytest']}", self.python], [sys.executable]]
        limits = {"CPU": int(plan["check_seconds"]), "FSIZE": CHECK_WRITES, "CORE": 0}
        self.checks = Forks(pythons, self.workdir, scratch, limits, imports="pytest")
        self.binaries: dict[str, tuple[Path | None, str]] = {}
        """Digest of a C source → its binary (None when it does not compile) and the compiler's words."""

    def execute(self, test: dict[str, Any]) -> Result | None:
        """One test, once: a cell. None where it is not run: it ran out of time before, or so many others did that it is
        not begun any more."""
        most = TIMEOUTS_PER_SUITE * self.plan["repeats"]
        patient = len(self.slow) < most or test["subject"]["kind"] == "file" or test["id"] in self.ran
        if test["id"] in self.slow or not patient:
            return None
        self.ran.add(test["id"])
        try:
            try:
                result = self._executed(test, self.workdir / test["subject"]["path"])
            finally:
                self.bury()
                self.files.restore()
        except Exception as error:
            result = cell("error", None, f"{type(error).__name__}: {error}")
        if result["outcome"] == "timeout":
            self.slow.add(test["id"])
        return result

    def close(self) -> None:
        """End the servers."""
        self.calls.close()
        self.checks.close()

    def bury(self) -> None:
        """End what a test left running, in a session of its own too: the next one, whose files are put back, would meet
        a service that nothing in them knows of."""
        processes.reap()
        if set(processes.descendants(os.getpid())) - {self.calls.server, self.checks.server}:
            self.close()
            processes.kill_below(BURIAL_SECONDS, processes.reap, alone=False)

    def _executed(self, test: dict[str, Any], path: Path) -> Result:
        kind, named = test["subject"]["kind"], test["subject"]["path"]
        if named and not path.exists():
            if kind == "file" and test["expectation"]["kind"] == "rejected":
                return cell("pass", "no file")
            return cell("error", None, f"there is no {named}")
        result: Result = getattr(self, f"_{kind}")(test, path)
        return result

    def _call(self, test: dict[str, Any], path: Path) -> Result:
        return self.ask({"kind": "call", "path": str(path), **test})

    def ask(self, job: dict[str, Any]) -> Result:
        """Have the task's interpreter do a job; its answer comes in a file of its own."""
        code, told, err = self.calls.ask(job, self.plan["seconds"])
        if code is None:
            return cell("timeout", None, "ran out of time")
        try:
            answer: Result = json.loads(told)
        except ValueError:
            fault = err.decode("utf-8", "replace")[-300:]
            return cell("error", None, f"ended with {code} before it answered: {fault}")
        return answer

    def _command(self, test: dict[str, Any], path: Path) -> Result:
        return self._shell(test, self._launcher(test["subject"]["path"], path))

    def _launcher(self, named: str, path: Path) -> str:
        if not named:
            return ""
        first = path.open("rb").readline(200) if path.is_file() else b""
        if first.startswith(b"#!") and os.access(path, os.X_OK):
            return shlex.quote(str(path))
        shebang = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
        named_shell = Path(shebang[-1]).name if shebang else ""
        shell = "bash" if "bash" in named_shell or path.suffix == ".bash" else "sh"
        launcher = shlex.quote(self.python) if path.suffix == ".py" else (shutil.which(shell) or "sh")
        return f"{launcher} {shlex.quote(str(path))}"

    def _program(self, test: dict[str, Any], path: Path) -> Result:
        import hashlib

        source = path.read_bytes()
        key = hashlib.sha256(source).hexdigest()
        if key not in self.binaries:
            compiler = next((found for name in ("cc", "gcc", "clang", "tcc") if (found := shutil.which(name))), None)
            if compiler is None:
                return cell("skipped", None, "no C compiler here")
            binary = self.scratch / key[:12]
            code, _, err = child.run(
                [compiler, "-O1", "-w", "-o", str(binary), str(path), "-lm"], cwd=self.workdir,
                scratch=self.scratch, timeout=30, cpu=20,
            )  # fmt: skip
            fault = err.decode("utf-8", "replace").replace(str(path), path.name)
            self.binaries[key] = (binary if code == 0 else None, fault)
        built, fault = self.binaries[key]
        if built is None:
            return cell("error", None, "does not compile: " + fault)
        return self._shell(test, shlex.quote(str(built)))

    def _shell(self, test: dict[str, Any], launcher: str) -> Result:
        """Run a command line; what it means: its output against the expectation."""
        code, out, err = child.run(
            ["sh", "-c", f"{launcher} {test['input']}".strip()], cwd=self.workdir, scratch=self.scratch,
            timeout=self.plan["seconds"], stdin=test["stdin"].encode(),
        )  # fmt: skip
        if code is None:
            return cell("timeout", None, "ran out of time")
        changed = self.files.changes()
        told = "\n".join(part.rstrip() for part in out.decode("utf-8", "replace").rstrip().splitlines())
        observed = f"exit {code}; {told[:1500]}" + (f"; changes {changed}" if changed else "")
        fault = err.decode("utf-8", "replace")[-300:]
        expectation = test["expectation"]
        if expectation["kind"] == "rejected":
            right = code != 0 or not told
            return cell("pass" if right else "fail", observed, "" if right else f"accepted, answering {told[:300]!r}")
        if expectation["kind"] == "value":
            wish = "\n".join(part.rstrip() for part in expectation["value"].rstrip().splitlines())
            if told == wish:
                return cell("pass", observed)
        if code != 0:  # a crash is told to every repair, so it must not say what a test expects
            return cell("error", observed, f"exit code {code}, observed {told[:100]!r}: {fault}")
        if expectation["kind"] == "value":
            return cell("fail", observed, f"observed {told[:300]!r} where {wish[:300]!r} was expected; {fault}")
        return cell("pass", observed)

    def _check(self, test: dict[str, Any], path: Path) -> Result:
        """A pytest function in a session of its own: it may run programs, start services, read anything."""
        folder = self.scratch / "check"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "test_check.py").write_text(test["input"], encoding="utf-8")
        options = ["-x", "-q", "-rs", "--tb=short", "--no-header", "-p", "no:cacheprovider", "-c", "/dev/null"]
        name = f"{folder}/test_check.py::{test['subject']['function']}"
        seconds = self.plan["check_seconds"]
        job = {"kind": "pytest", "options": [*options, "--rootdir", str(folder), name]}
        code, out, err = self.checks.ask(job, seconds)
        said = out.decode("utf-8", "replace")
        if code is None:
            return cell("timeout", None, f"ran out of time ({seconds:g} s)")
        if code == 0:
            skipped = " passed" not in said
            return cell("skipped" if skipped else "pass", "pass", said.strip()[-300:] if skipped else "")
        faults = [line[1:].strip() for line in said.splitlines() if line.startswith("E  ")]
        faults = [line for line in faults if not line.startswith("Use -v to get")]
        detail = "\n".join(faults[:12]) or (said.strip() or err.decode("utf-8", "replace").strip())[-600:]
        return cell("fail" if code == 1 else "error", f"fail: {detail[:300]}", detail)

    def _file(self, test: dict[str, Any], path: Path) -> Result:
        expectation = test["expectation"]
        if not path.is_file():
            right = expectation.get("name") == "exists" and path.exists()
            return cell("pass" if right else "error", "a folder", "" if right else "it is not a regular file")
        import hashlib

        data = path.open("rb").read(8 << 20)
        text = data.decode("utf-8", "replace").rstrip()
        observed = f"{len(data)} bytes sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]} {text[:200]}"
        if expectation["kind"] == "rejected":
            return cell("fail", observed, "the file exists")
        if expectation["kind"] == "unknown":
            return cell("pass", observed)
        if expectation["kind"] == "value":
            right = text == expectation["value"].rstrip()
            return cell("pass" if right else "fail", observed, "" if right else f"holds {text[:200]!r}")
        if expectation["name"] == "compiles" and path.suffix == ".py":
            return self.ask({"kind": "compiles", "path": str(path), **test})
        from hc_ray.sandboxes.inside.suites import checks

        outcome, detail = checks.holds(expectation["name"], expectation.get("argument", ""), data, path)
        return cell(outcome, observed, detail)


def run(plan: dict[str, Any], driver: Driver, report: io.TextIOBase) -> None:
    """Every test once before any is repeated: who is stopped has seen as many of them as there was time for."""
    for test in plan["tests"] * plan["repeats"]:
        if (said := driver.execute(test)) is not None:
            report.write(json.dumps({"id": test["id"], **said}) + "\n")
            report.flush()


def main() -> None:
    processes.adopt_orphans()
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path = Path(sys.argv[1]).resolve()
    plan = json.loads(path.read_text(encoding="utf-8"))
    own = path.parent if os.access(path.parent, os.W_OK) else Path("/tmp")
    scratch = own / f"t{os.urandom(4).hex()}"  # as ``domain.normalisation`` knows it
    scratch.mkdir(mode=0o700)
    try:
        driver = Driver(plan, scratch)
        run(plan, driver, report)
        driver.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
