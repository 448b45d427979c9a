"""The properties that a file may be asked for: one small check each, by name. A check answers with what is wrong, in
one line; with an empty text where all is right. Standard library only."""

import ast
import csv
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from hc_ray.sandboxes.inside.suites import child

Check = Callable[[bytes, str, Path], str]


def holds(name: str, argument: str, data: bytes, path: Path) -> tuple[str, str]:
    """Whether a file, which holds these bytes, has a property: ``(outcome, detail)``."""
    try:
        fault = CHECKS[name](data, argument, path)
    except (LookupError, RecursionError, SyntaxError, TypeError, ValueError, csv.Error, re.error) as error:
        fault = f"{type(error).__name__}: {str(error)[:200]}"
    return ("fail", fault) if fault else ("pass", "")


def _compiles(data: bytes, argument: str, path: Path) -> str:
    """Shell and C by their own compilers' dry run; Python is compiled by the task's interpreter before we come here."""
    checks = {".sh": ["sh", "-n"], ".bash": ["bash", "-n"], ".c": ["cc", "-fsyntax-only", "-w"],
              ".js": ["node", "--check"], ".pl": ["perl", "-c"]}  # fmt: skip
    command = checks.get(path.suffix)
    if data.startswith(b"#!") and b"bash" in data.splitlines()[0]:
        command = ["bash", "-n"]
    if command is None or shutil.which(command[0]) is None:
        return ""
    scratch = Path(tempfile.gettempdir())
    code, _, err = child.run([*command, str(path)], cwd=path.parent, scratch=scratch, timeout=20, cpu=10)
    fault = err.decode("utf-8", "replace")[:300].replace(str(path), path.name)
    return "" if code == 0 else "does not compile: " + fault


def _defines(data: bytes, argument: str, path: Path) -> str:
    text = data.decode("utf-8", "replace")
    if path.suffix == ".py":
        tree = ast.parse(text)
        names = {node.name for node in ast.walk(tree) if hasattr(node, "name") and isinstance(node.name, str)}
        names |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
                  if isinstance(target, ast.Name)}  # fmt: skip
        return "" if argument in names else f"defines no {argument}"
    return "" if re.search(rf"\b{re.escape(argument)}\s*\(", text) else f"defines no {argument}"


def _csv(data: bytes, argument: str, path: Path) -> str:
    rows = [row for row in csv.reader(io.StringIO(data.decode("utf-8")), strict=True) if row]
    if not rows:
        return "no rows"
    return "" if len({len(row) for row in rows}) == 1 else "rows of different lengths"


def _json(data: bytes, argument: str, path: Path) -> str:
    json.loads(data.decode("utf-8"))
    return ""


def _utf8(data: bytes, argument: str, path: Path) -> str:
    data.decode("utf-8")
    return ""


CHECKS: dict[str, Check] = {
    "exists": lambda data, argument, path: "",
    "nonempty": lambda data, argument, path: "" if data.strip() else "it is empty",
    "utf8": _utf8,
    "valid_json": _json,
    "valid_csv": _csv,
    "compiles": _compiles,
    "defines": _defines,
}
"""Name → check. That the file is there is seen before anybody comes here."""
