"""Runs under the *task's own* interpreter, one process a suite: it forks one child a job, since starting an interpreter
a test is most of what a test costs. A child loads the candidate's module, evaluates one call, and answers in a file; in
their parent nothing of a candidate is ever loaded, so that each begins with the same clean state. Standard library
only, Python 3.6 syntax.

Jobs come over the inherited Unix socket whose descriptor is the first argument, once a byte has told that the server is
ready: a line of JSON with two descriptors, of the answer and of the standard error. The reply to each is a line with
how the child ended: ``{"code": 0}``, null past its deadline. A job is a test with its ``kind`` (call, compiles) and the
candidate's ``path``; the answer is JSON on its descriptor, whatever the candidate prints. Or it is a session of pytest
(kind pytest, with its ``options``) of a server whose second argument is ``pytest``: the answer is what it prints."""
# An old interpreter may run this file: no strict zip, no assignment expressions, no quoted-away syntax.
# ruff: noqa: B905

import array
import ast
import contextlib
import importlib.util
import io
import json
import math
import os
import re
import resource
import signal
import socket
import sys
import time

MYPY = False
if MYPY:
    from types import ModuleType
    from typing import Any

LIMIT = 2000
DEPTH = 6
PART = 1 << 16


def canonical(value: "Any", depth: int = DEPTH) -> str:
    """``repr`` with floats rounded to 12 digits, sets and dictionaries sorted, generators drawn, addresses blanked."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        return repr(float(format(value, ".12g"))) if math.isfinite(value) else repr(value)
    if isinstance(value, (int, str, bytes)):
        return repr(value)[: LIMIT * 2]
    if depth == 0:
        return "..."
    name = type(value).__name__
    if isinstance(value, list):
        return "[" + ", ".join(canonical(item, depth - 1) for item in value[:LIMIT]) + "]"
    if isinstance(value, tuple):
        inner = ", ".join(canonical(item, depth - 1) for item in value[:LIMIT])
        return "(" + inner + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, (set, frozenset)):
        return name + "{" + ", ".join(sorted(canonical(item, depth - 1) for item in value)) + "}"
    if isinstance(value, dict):
        pairs = sorted(canonical(k, depth - 1) + ": " + canonical(v, depth - 1) for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if hasattr(value, "__next__"):
        drawn = [item for item, _ in zip(value, range(LIMIT))]
        return name + canonical(drawn, depth - 1)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def same(left: "Any", right: "Any") -> bool:
    """Python's ``==`` with floats compared at a relative 1e-9, inside containers too."""
    if isinstance(left, float) or isinstance(right, float):
        try:
            return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
        except (TypeError, OverflowError):
            return False
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    try:
        return bool(left == right)
    except Exception:
        return False


def load(path: str) -> "ModuleType":
    """The candidate's module, loaded by its path; its folder comes first on ``sys.path``."""
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    name = re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0]) or "candidate"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file: " + path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def evaluate(job: "dict[str, Any]", module: "ModuleType") -> "tuple[Any, BaseException | None, str]":
    """One evaluation of the call in the module's own names: ``(value, error, printed)``."""
    printed = io.StringIO()
    kept, sys.stdout = sys.stdout, printed
    try:
        return eval(job["input"], dict(vars(module))), None, printed.getvalue()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, error, printed.getvalue()
    finally:
        sys.stdout = kept


def describe(value: "Any", error: "BaseException | None", printed: str) -> str:
    if error is not None:
        return "raises " + type(error).__name__
    told = canonical(value)
    return told + ("; prints " + repr(printed[:500]) if printed.strip() else "")


def run_call(job: "dict[str, Any]") -> "dict[str, Any]":
    try:
        kept, sys.stdout = sys.stdout, io.StringIO()
        try:
            module = load(job["path"])
        finally:
            sys.stdout = kept
    except BaseException as fault:
        return {"outcome": "error", "observed": None, "detail": f"does not load: {brief(fault)}"}
    name, expectation = job["subject"].get("function"), job["expectation"]
    if name and not hasattr(module, name.split(".")[0]):
        return {"outcome": "error", "observed": None, "detail": f"defines no {name}"}
    value, error, printed = evaluate(job, module)
    observed = describe(value, error, printed)
    if expectation["kind"] == "rejected":
        accepted = error is None and value is not None
        outcome, detail = ("fail", f"answered {observed} where it must refuse") if accepted else ("pass", "")
    elif error is not None:
        outcome, detail = "error", brief(error)
    elif expectation["kind"] != "value":
        outcome, detail = "pass", ""
    else:
        expected = ast.literal_eval(expectation["value"])
        right = same(value, expected)
        told = f"observed {observed} where {canonical(expected)} was expected"
        outcome, detail = ("pass", "") if right else ("fail", told)
    return {"outcome": outcome, "observed": observed, "detail": detail}


def run_compiles(job: "dict[str, Any]") -> "dict[str, Any]":
    with open(job["path"], encoding="utf-8") as file:
        source = file.read()
    try:
        compile(source, os.path.basename(job["path"]), "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return {"outcome": "fail", "observed": "does not compile", "detail": brief(error)}
    return {"outcome": "pass", "observed": "compiles", "detail": ""}


def brief(error: BaseException) -> str:
    """Type and message of an exception in one line, with the candidate's line number where it has one."""
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while line is None and trace is not None:
        if "importlib" not in trace.tb_frame.f_code.co_filename and trace.tb_next is None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename != __file__ else None
        trace = trace.tb_next
    text = "{}: {}".format(type(error).__name__, getattr(error, "msg", None) or error)
    return re.sub(r"\s+", " ", text)[:300] + (f" (line {line})" if line else "")


def answer_job(job: "dict[str, Any]", descriptor: int) -> None:
    """Do a job, answer on the descriptor, end this process."""
    if job["kind"] == "pytest":
        run_pytest(job["options"], descriptor)
    os.set_inheritable(descriptor, False)
    answers = os.fdopen(descriptor, "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdin = io.StringIO("")
    sys.setrecursionlimit(2000)
    run = {"call": run_call, "compiles": run_compiles}[job["kind"]]
    try:
        result = run(job)
    except BaseException as error:
        result = {"outcome": "error", "observed": None, "detail": brief(error)}
    if result["observed"]:
        result["observed"] = result["observed"][:LIMIT]
    result["detail"] = result["detail"][:LIMIT]
    answers.write(json.dumps(result))
    answers.flush()
    os._exit(0)


def run_pytest(options: "list[str]", descriptor: int) -> None:
    """As ``python -m pytest`` does, with the working directory first on ``sys.path``. Never returns."""
    import atexit

    import pytest

    os.dup2(descriptor, 1)
    os.close(descriptor)
    sys.path[0], sys.argv = os.getcwd(), ["pytest", *options]
    code = int(pytest.main(options))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def import_pytest() -> None:
    """With the plugins of its own, which each session would import. Nothing of a candidate's is loaded."""
    import pytest  # noqa: F401

    with contextlib.suppress(Exception):  # an older or newer one has other names
        from _pytest.config import get_config

        get_config()


def received(control: "socket.socket") -> "tuple[dict[str, Any], list[int]] | None":
    """The next job and its descriptors; None where the driver is gone."""
    told, passed = b"", array.array("i")
    while not told.endswith(b"\n"):
        part, notes, _, _ = control.recvmsg(PART, socket.CMSG_SPACE(2 * passed.itemsize))
        for level, kind, data in notes:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed.frombytes(data[: len(data) - len(data) % passed.itemsize])
        if not part:
            return None
        told += part
    return json.loads(told.decode()), list(passed)


def limited(limits: "dict[str, int]") -> None:
    """The limits of one test, as ``hc_child`` sets them."""
    for name, value in limits.items():
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value + 1 if name == "CPU" else value))


def child(control: "socket.socket", request: "dict[str, Any]", answer: int, err: int) -> None:
    """The forked child: a session of its own, limits, no way back to the driver but the answer. Never returns."""
    try:
        os.setsid()
        control.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.chdir(request["cwd"])
        os.dup2(err, 2)
        os.close(err)
        limited(request["limits"])
        answer_job(request["job"], answer)
    finally:
        os._exit(1)


def ended(pid: int, seconds: float) -> "int | None":
    """How the child ended; None past its deadline. Its whole session is killed before it is buried."""
    until = time.monotonic() + seconds
    late = False
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = until - time.monotonic()
        if left <= 0:
            late = True
            break
        signal.sigtimedwait([signal.SIGCHLD], left)
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if late:
        return None
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    if sys.argv[2:] == ["pytest"]:
        import_pytest()
    control.sendall(b"!")
    while True:
        told = received(control)
        if told is None:
            return
        request, (answer, err) = told
        pid = os.fork()
        if pid == 0:
            child(control, request, answer, err)
        os.close(answer)
        os.close(err)
        control.sendall(json.dumps({"code": ended(pid, request["seconds"])}).encode() + b"\n")
