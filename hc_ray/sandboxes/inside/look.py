"""Looks around in an untouched environment: which tools are there in which version, which files lie in the workdir and
what they hold. Runs under the runner's Python inside a sandbox, prints one JSON object. Standard library only.

    hc_look WORKDIR [PATH ...]

The further paths are those outside of the workdir that are asked for by name. The standard input may bring what is
known of tools (``EnvironmentView.shared``)."""

import ast
import codecs
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hc_ray.sandboxes.inside.suites import child

TOOLS: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("python3", "gcc", "cc", "g++", "make", "cmake", "node", "npm", "perl", "ruby", "php", "rustc", "Rscript", "bash",
     "awk", "sed", "git", "curl", "wget", "jq", "sqlite3", "psql", "nginx", "tar", "zip"), ("--version",),
)  # fmt: skip
TOOLS.update(java=("-version",), go=("version",), lua=("-v",), openssl=("version",), ssh=("-V",))
"""What is looked for, and how each tells its version."""

FILES, COUNTED, PREVIEW_LINES, PREVIEW, READ = 40, 10_000, 5, 400, 1 << 20
FEW = 20
"""Files of a folder outside of the workdir that are told one by one."""
CLOSED = (".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__")
"""Folders that are told as such, without what lies in them."""
GIT = ("git", "--no-optional-locks", "-c", "safe.directory=*", "-c", "core.fsmonitor=false")
"""Asks a repository without changing it."""
REPOSITORIES, STATE_LINES, STATE_LINE = 3, 15, 120
ASKED = (("status", "--short", "--branch"), ("log", "--all", f"-n{STATE_LINES + 1}", "--format=%h%d %s"))
CONTROLS = re.compile(rb"[\0-\x07\x0e-\x1a\x1c-\x1f]")
"""Control characters that no text has."""


def tools(scratch: Path, known: dict[str, str]) -> dict[str, str]:
    """Name → version, as the tool says it; empty where it says none. What is asked and shared becomes ``known``."""
    found = {}
    for name, arguments in sorted(TOOLS.items()):
        path = shutil.which(name)
        if path is None:
            continue
        program = shared(path)
        if program in known:
            found[name] = known[program]
            continue
        code, out, err = child.run([path, *arguments], cwd=scratch, scratch=scratch, timeout=5)
        told = (out or err).decode("utf-8", "replace") if code == 0 else ""
        version = re.search(r"\d+(?:\.\d+)+\w*", told)
        found[name] = version[0][:40] if version else ""
        if program and version:
            known[program] = found[name]
    return found


def shared(path: str) -> str:
    """What tells a program on a read-only file system, which is no environment's own, from any other; else empty."""
    real = os.path.realpath(path)
    if not all(os.statvfs(at).f_flag & os.ST_RDONLY for at in (Path(path).parent, real)):
        return ""
    facts = Path(real).stat()
    return f"{path} {real} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}"


def files(workdir: Path) -> list[dict[str, Any]]:
    """The workdir's files and empty folders, the latter with a slash at the end, in the order of their paths."""
    found: list[dict[str, Any]] = []
    for name in islice(_names(workdir), COUNTED):
        if name.endswith("/"):
            found.append({"path": name, "size": 0})
        else:
            found.append(view(workdir / name, name) if len(found) < FILES else {"path": name})
    return found


def _names(workdir: Path) -> Iterator[str]:
    for folder, names, held in os.walk(workdir):
        at = Path(folder).relative_to(workdir)
        if not names and not held and at.parts:
            yield f"{at}/"
        own = ("objects", "refs") if bare(Path(folder)) else ()
        closed = {name for name in names if name in (*CLOSED, *own) or bare(Path(folder, name))}
        yield from (f"{at / name}/" for name in sorted(closed))
        names[:] = sorted(set(names) - closed)
        for name in sorted(held):
            path = Path(folder, name)
            sample = path.match("hooks/*.sample")  # git's own, in every repository
            if path.is_file() and not path.is_symlink() and not sample:
                yield str(at / name)


def outside(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Files, and folders with the few files that they hold, outside of the workdir."""
    found: list[dict[str, Any]] = []
    for path in map(Path, paths):
        if path.is_dir():
            held = [] if bare(path) else files(path)
            found += [{**one, "path": f"{path}/{one['path']}"} for one in held] if len(held) <= FEW else []
            found += [] if held and len(held) <= FEW else [{"path": f"{path}/", "size": 0}]
        elif path.is_file():
            found.append(view(path, str(path)))
    return found


def bare(folder: Path) -> bool:
    """Whether a folder is a git repository itself, as a ``.git`` is."""
    return all((folder / name).is_dir() for name in ("objects", "refs")) and (folder / "HEAD").is_file()


def repositories(folders: Sequence[Path], scratch: Path) -> dict[str, str]:
    """Git repository → what differs from its last commit, and its last commits with the branches and tags that point to
    them, as git tells it. ``folders``: where some may be."""
    found: dict[str, str] = {}
    there = (one.parent if one.name == ".git" else one for one in folders)
    for at in dict.fromkeys(one for one in there if bare(one) or (one / ".git").is_dir()):
        if len(found) == REPOSITORIES or shutil.which("git") is None:
            break
        told: list[str] = []
        for asked in ASKED:
            code, out, _ = child.run([*GIT, *asked], cwd=at, scratch=scratch, timeout=5)
            said = out.decode("utf-8", "replace") if code == 0 else ""
            lines = [line[:STATE_LINE] for line in said.splitlines()]
            told += lines[:STATE_LINES] + ["…"] * (len(lines) > STATE_LINES)
        found[str(at)] = "\n".join(told)
    return found


def system() -> dict[str, str]:
    """The distribution's name and who runs commands."""
    try:
        facts = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    except OSError:
        facts = {}
    name = facts.get("PRETTY_NAME", "").strip('"')
    uid = os.getuid()
    return {"system": name, "user": "root" if uid == 0 else f"uid {uid}, not root"}


def view(path: Path, name: str) -> dict[str, Any]:
    """One file: its size, and what can be said of its text."""
    told: dict[str, Any] = {"path": name, "size": path.stat().st_size}
    try:
        with path.open("rb") as file:
            data = file.read(READ)
        # What is read may end within a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, len(data) < READ)
    except OSError:
        return told
    except UnicodeDecodeError:  # a text in another encoding
        text = "\0" if CONTROLS.search(data) else data.decode("latin-1")
    if "\0" in text:
        return told
    told.update(lines=len(text.splitlines()), preview="\n".join(text.splitlines()[:PREVIEW_LINES])[:PREVIEW])
    try:
        if path.suffix.lower() == ".py":
            told["functions"] = [
                f"{node.name}({ast.unparse(node.args)})" for node in ast.parse(text).body
                if isinstance(node, ast.FunctionDef)
            ][:30]  # fmt: skip
    except (ValueError, SyntaxError, RecursionError):
        pass
    return told


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        workdir, named = Path(sys.argv[1]), sys.argv[2:]
        seen, beyond = files(workdir), outside(named)
        folders = [workdir / one["path"] for one in (*seen, *beyond) if one["path"].endswith("/")]
        known = json.loads(sys.stdin.read() or "{}")
        states = repositories([workdir, *folders, *map(Path, named)], Path(scratch))
        report = {"tools": tools(Path(scratch), known), "shared": known, "files": seen[:FILES], "count": len(seen),
                  "outside": beyond[:FILES], "repositories": states, **system()}  # fmt: skip
    sys.stdout.write(json.dumps(report))
