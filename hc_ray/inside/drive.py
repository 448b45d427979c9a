"""Runs under the runner's Python inside a sandbox: one pytest run that drives every self-test of a suite.

    python3 hc_drive.py PLAN.json

Each test is one pytest item, run ``repeats`` times, in its own child process (the task's own ``python3`` for calls and
patterns, ``sh -c`` for commands, ``cc`` for C programs), against the workdir exactly as the candidate left it: what a
test changed there is put back from a private copy before the next one. (In place, because scripts name their files by
absolute paths.) The report is JSON lines on the standard output that this process was started with; pytest and the
tests write to standard error. Standard library and pytest only.
"""

import ast
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import resource
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

CUT = 2000
CPU_SECONDS = 2
TIMEOUTS_PER_SUITE = 2
MEMORY = 2 << 30
WRITES = 64 << 20

Run = tuple[int | None, bytes, bytes]
Result = dict[str, Any]


class Workdir:
    """The workdir and its private copy; ``restore`` undoes what a test changed."""

    def __init__(self, path: str, scratch: Path) -> None:
        self.path, self.copy = Path(path), scratch / "pristine"
        shutil.copytree(self.path, self.copy, symlinks=True, ignore_dangling_symlinks=True, ignore=self._special)
        self.stamps = self._stamps()

    @staticmethod
    def _special(folder: str, names: list[str]) -> list[str]:
        modes = ((name, (Path(folder) / name).lstat().st_mode) for name in names)
        return [name for name, mode in modes if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]

    def _stamps(self) -> dict[str, tuple[int, ...]]:
        """Path → what tells a changed entry; the change time cannot be set back by a test."""
        stamps: dict[str, tuple[int, ...]] = {}
        for folder, names, files in os.walk(self.path):
            for name in (*names, *files):
                path = Path(folder) / name
                info = path.lstat()
                changed = 0 if stat.S_ISDIR(info.st_mode) else info.st_ctime_ns
                stamps[str(path)] = (info.st_ino, info.st_mode, info.st_size if changed else 0, changed)
        return stamps

    def restore(self) -> None:
        if self._stamps() == self.stamps:
            return
        for path in list(self.path.iterdir()):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        shutil.copytree(self.copy, self.path, symlinks=True, dirs_exist_ok=True)
        self.stamps = self._stamps()


def run(
    command: Sequence[str], *, cwd: Path, scratch: Path, timeout: float, stdin: bytes = b"", cpu: int = CPU_SECONDS,
    memory: int | None = None,
) -> Run:  # fmt: skip
    """``(exit code or None past the deadline, stdout, stderr)``; the whole session is killed at the end."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (WRITES, WRITES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST", "LD_"))}
    env.update(PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0", TMPDIR=str(scratch))
    env.setdefault("LC_ALL", "C.UTF-8")
    with tempfile.TemporaryFile(dir=scratch) as out, tempfile.TemporaryFile(dir=scratch) as err:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True,
            preexec_fn=limit,
        )  # fmt: skip
        try:
            process.communicate(stdin, timeout=timeout)
            code = process.returncode
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            code = None
        out.seek(0)
        err.seek(0)
        return code, out.read(1 << 20), err.read(CUT)


def cell(outcome: str, observed: str | None = None, detail: str = "") -> Result:
    return {"outcome": outcome, "observed": observed[:CUT] if observed else observed, "detail": detail[:CUT]}


class Driver:
    """Runs tests against one candidate's workdir."""

    def __init__(self, plan: dict[str, Any], scratch: Path) -> None:
        self.plan, self.scratch = plan, scratch
        self.workdir = Workdir(plan["workdir"], scratch)
        self.python = shutil.which("python3") or sys.executable
        self.timeouts = 0
        self.binaries: dict[str, tuple[Path | None, str]] = {}
        """Digest of a C source → its binary (None when it does not compile) and the compiler's words."""

    def execute(self, test: dict[str, Any]) -> Result:
        """One test, once: a cell. Too many tests past their deadline end the patience with the candidate."""
        if self.timeouts >= TIMEOUTS_PER_SUITE and test["subject"]["kind"] != "file":
            return cell("timeout", None, f"not run: {self.timeouts} tests had run out of time")
        path = self.workdir.path / test["subject"]["path"]
        missing = not path.exists()
        expectation = test["expectation"]
        if missing and test["subject"]["path"]:
            if test["subject"]["kind"] == "file" and expectation["kind"] == "rejected":
                return cell("pass", "no file")
            return cell("error", None, f"there is no {test['subject']['path']}")
        try:
            result: Result = getattr(self, "_" + test["subject"]["kind"])(test, path)
        except Exception as error:
            result = cell("error", None, f"{type(error).__name__}: {error}")
        finally:
            self.workdir.restore()
        self.timeouts += result["outcome"] == "timeout"
        return result

    def _call(self, test: dict[str, Any], path: Path) -> Result:
        return self._child("call", test, path)

    def _pattern(self, test: dict[str, Any], path: Path) -> Result:
        return self._child("pattern", test, path)

    def job(self, kind: str, test: dict[str, Any], path: Path) -> dict[str, Any]:
        """What ``hc_call.py`` is told."""
        expectation = test["expectation"]
        return {
            "marker": secrets.token_hex(16),
            "kind": kind,
            "path": str(path),
            "function": test["subject"].get("function"),
            "call": test["input"],
            "expected": expectation.get("value") if expectation["kind"] == "value" else None,
            "rejected": expectation["kind"] == "rejected",
            "property": expectation.get("name") if expectation["kind"] == "property" else None,
            "argument": expectation.get("argument", ""),
        }

    def _child(self, kind: str, test: dict[str, Any], path: Path) -> Result:
        job = self.job(kind, test, path)
        code, out, err = run(
            [self.python, self.plan["call"]], cwd=self.workdir.path, scratch=self.scratch,
            timeout=self.plan["seconds"], stdin=json.dumps(job).encode(), memory=MEMORY,
        )  # fmt: skip
        if code is None:
            return cell("timeout", None, "ran out of time")
        for line in reversed(out.decode("utf-8", "replace").splitlines()):
            if line.startswith(job["marker"]):
                answer: Result = json.loads(line[len(job["marker"]) :])
                return answer
        return cell("error", None, f"ended with {code} before it answered: {err.decode('utf-8', 'replace')[-300:]}")

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
        source = path.read_bytes()
        key = hashlib.sha256(source).hexdigest()
        if key not in self.binaries:
            compiler = next((found for name in ("cc", "gcc", "clang", "tcc") if (found := shutil.which(name))), None)
            if compiler is None:
                return cell("skipped", None, "no C compiler here")
            binary = self.scratch / key[:12]
            code, _, err = run(
                [compiler, "-O1", "-w", "-o", str(binary), str(path), "-lm"], cwd=self.workdir.path,
                scratch=self.scratch, timeout=30, cpu=20,
            )  # fmt: skip
            fault = err.decode("utf-8", "replace").replace(str(path), path.name)
            self.binaries[key] = (binary if code == 0 else None, fault)
        built, fault = self.binaries[key]
        if built is None:
            return cell("error", None, "does not compile: " + fault)
        return self._shell(test, shlex.quote(str(built)))

    def _shell(self, test: dict[str, Any], launcher: str) -> Result:
        line = f"{launcher} {test['input']}".strip()
        results: list[Run] = []
        again = test["expectation"].get("name") == "deterministic"
        for _ in range(2 if again else 1):
            results.append(
                run(["sh", "-c", line], cwd=self.workdir.path, scratch=self.scratch, timeout=self.plan["seconds"],
                    stdin=test["stdin"].encode())
            )  # fmt: skip
            if again:
                self.workdir.restore()
        code, out, err = results[0]
        if code is None:
            return cell("timeout", None, "ran out of time")
        text = out.decode("utf-8", "replace")
        told = "\n".join(part.rstrip() for part in text.rstrip().splitlines())
        observed = f"exit {code}; {told}"
        fault = err.decode("utf-8", "replace")[-300:]
        expectation = test["expectation"]
        if expectation["kind"] == "rejected":
            right = code != 0 or not told
            return cell("pass" if right else "fail", observed, "" if right else f"accepted, answering {told[:300]!r}")
        if expectation["kind"] == "value":
            wish = "\n".join(part.rstrip() for part in expectation["value"].rstrip().splitlines())
            if told == wish:
                return cell("pass", observed)
            outcome = "error" if code != 0 else "fail"
            return cell(outcome, observed, f"observed {told[:300]!r} where {wish[:300]!r} was expected; {fault}")
        if code != 0:
            return cell("error", observed, f"exit code {code}: {fault}")
        if expectation["kind"] == "unknown":
            return cell("pass", observed)
        if again and results[0][:2] != results[1][:2]:
            return cell("fail", observed, "a second run answered differently")
        return cell(*holds(expectation["name"], expectation.get("argument", ""), out, None), observed)

    def _file(self, test: dict[str, Any], path: Path) -> Result:
        expectation = test["expectation"]
        if not path.is_file():
            right = expectation.get("name") == "exists" and path.exists()
            return cell("pass" if right else "error", "a folder", "" if right else "it is not a regular file")
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
            return self._child("compiles", test, path)
        outcome, detail = holds(expectation["name"], expectation.get("argument", ""), data, path)
        return cell(outcome, observed, detail)


def holds(name: str, argument: str, data: bytes, path: Path | None) -> tuple[str, str]:
    """Whether bytes (a file's, or an output's where ``path`` is None) have a property: ``(outcome, detail)``."""
    try:
        fault = CHECKS[name](data, argument, path)
    except (ValueError, SyntaxError, RecursionError, csv.Error) as error:
        fault = f"{type(error).__name__}: {str(error)[:200]}"
    return ("fail", fault) if fault else ("pass", "")


def _compiles(data: bytes, argument: str, path: Path | None) -> str:
    """Shell and C by their own compilers' dry run; Python is compiled by the task's interpreter before we come here."""
    checks = {".sh": ["sh", "-n"], ".bash": ["bash", "-n"], ".c": ["cc", "-fsyntax-only", "-w"],
              ".js": ["node", "--check"], ".pl": ["perl", "-c"]}  # fmt: skip
    command = checks.get(path.suffix if path else "")
    if data.startswith(b"#!") and b"bash" in data.splitlines()[0]:
        command = ["bash", "-n"]
    if path is None or command is None or shutil.which(command[0]) is None:
        return ""
    code, _, err = run([*command, str(path)], cwd=path.parent, scratch=Path(tempfile.gettempdir()), timeout=20, cpu=10)
    fault = err.decode("utf-8", "replace")[:300].replace(str(path), path.name)
    return "" if code == 0 else "does not compile: " + fault


def _defines(data: bytes, argument: str, path: Path | None) -> str:
    text = data.decode("utf-8", "replace")
    if path is not None and path.suffix == ".py":
        tree = ast.parse(text)
        names = {node.name for node in ast.walk(tree) if hasattr(node, "name") and isinstance(node.name, str)}
        names |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                  if isinstance(target, ast.Name)}  # fmt: skip
        return "" if argument in names else f"defines no {argument}"
    return "" if re.search(rf"\b{re.escape(argument)}\s*\(", text) else f"defines no {argument}"


def _csv(data: bytes, argument: str, path: Path | None) -> str:
    rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8")), strict=True) if row]
    if not rows:
        return "no rows"
    return "" if len({len(row) for row in rows}) == 1 else "rows of different lengths"


def _json(data: bytes, argument: str, path: Path | None) -> str:
    json.loads(data.decode("utf-8"))
    return ""


def _utf8(data: bytes, argument: str, path: Path | None) -> str:
    data.decode("utf-8")
    return ""


CHECKS: dict[str, Callable[[bytes, str, Path | None], str]] = {
    "runs": lambda data, argument, path: "",
    "deterministic": lambda data, argument, path: "",
    "exists": lambda data, argument, path: "",
    "nonempty": lambda data, argument, path: "" if data.strip() else "it is empty",
    "not_none": lambda data, argument, path: "" if data.strip() else "there is no output",
    "valid_json": _json,
    "valid_csv": _csv,
    "utf8": _utf8,
    "compiles": _compiles,
    "defines": _defines,
    "executable": lambda data, argument, path: "" if path and os.access(path, os.X_OK) else "it may not be executed",
}


def suite_plugin(plan: dict[str, Any], driver: Driver, report: io.TextIOBase) -> object:
    """The pytest plugin that collects the plan's file into one item per test."""
    import pytest

    class Item(pytest.Item):
        test: dict[str, Any]

        def runtest(self) -> None:
            failed = None
            for turn in range(plan["repeats"]):
                result = driver.execute(self.test)
                report.write(json.dumps({"id": self.test["id"], "run": turn, **result}) + "\n")
                report.flush()
                failed = failed or (result["detail"] if result["outcome"] != "pass" else None)
            if failed is not None:
                raise AssertionError(failed)

        def repr_failure(self, excinfo: Any, style: Any = None) -> str:
            return str(excinfo.value)

        def reportinfo(self) -> tuple[Path, int | None, str]:
            return self.path, None, self.name

    class File(pytest.File):
        def collect(self) -> Iterator[Item]:
            for test in plan["tests"]:
                item = Item.from_parent(self, name=test["id"])
                item.test = test
                yield item

    class Plugin:
        def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> File | None:
            return File.from_parent(parent, path=file_path) if file_path.name == plan["name"] else None

    return Plugin()


def main(argv: Sequence[str]) -> int:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    path = Path(argv[1]).resolve()
    plan = {**json.loads(path.read_text(encoding="utf-8")), "name": path.name}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    with tempfile.TemporaryDirectory(prefix="t", dir=path.parent) as scratch:
        plugin = suite_plugin(plan, Driver(plan, Path(scratch)), report)
        options = ["-q", "--tb=line", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null"]
        code = pytest.main([*options, "--rootdir", str(path.parent), str(path)], plugins=[plugin])
    report.write(json.dumps({"done": len(plan["tests"]), "exit": int(code)}) + "\n")
    report.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
