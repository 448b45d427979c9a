"""Runs under the runner's Python inside the verifier's own sandbox, before the tests are there: what is resolved?

The order comes as JSON on the standard input; the answer is one line on the standard output, ``<nonce> <json>``, where
the nonce came with the order. Keys of the order: ``paths`` (members of the submission), ``links`` (those that are one,
with what it names), ``removed``, ``workdir``, ``words`` (names in the tests that may be programs), ``search``,
``sourced``, ``modules_at``, ``libraries_at``, ``imports`` (as the tests' scripts spell them), ``lib`` and ``pure`` (the
witness's and pytest's folder), ``env`` (what the tests get), ``session`` (whether to run one), ``mapped`` (files that
one maps), ``deep`` (all, whatever ``paths`` are), ``known`` (of an earlier answer of this untouched image:
``programs``, ``pytest``, ``pythons`` and ``searched``, which are not looked up again), ``ours`` (once a submission is
in: the image's programs, no other is run), ``ldconfig`` (the one to run), ``lent`` (whether python3 finds the witness:
else it is made to), ``compiled`` (folders beside the Pythons' own whose byte code a session keeps). The answer is
``blind.image.Image``. Standard library only."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import posixpath
import re
import stat
import subprocess
import sys

from hc_ray.sandboxes.inside import processes
from hc_ray.sandboxes.inside.grading import interpreters, named, shells, toolchains

MYPY = False
if MYPY:
    from collections.abc import Iterable, Iterator
    from typing import Any

_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_SEALED = re.compile(r"/(tests|logs|solution|proc|dev)(/|$)")
"""Where no link of a candidate's leads: the tests, what they write, other processes' files, devices."""
_ACCOUNTS = ("/etc/passwd", "/etc/group")
_FILES_BY_VARIABLE = ("BASH_ENV", "ENV", "PYTHONSTARTUP", "LD_PRELOAD", "PERL5OPT", "OPENSSL_CONF", "GIT_CONFIG_GLOBAL")
_TEXT_LIMIT = 1 << 20
_STEPS = 3_000_000
"""Folders on the way of all links of a submission (some seconds): those of a hundred thousand honest ones. Where the
links after so many lead nobody looks, and they are left behind."""


def probe(order: dict[str, Any]) -> dict[str, Any]:
    """The answer to one order."""
    if ldconfig := order.get("ldconfig"):
        remember_libraries(ldconfig)
    environment = {**os.environ, **order.get("env", {})}
    if paths := environment.get("PYTHONPATH"):  # as Pythons read it that start where the tests run
        paths = ":".join(posixpath.normpath(posixpath.join(order["workdir"], entry)) for entry in paths.split(":"))
        environment["PYTHONPATH"] = paths
    home = environment.get("HOME", "/root")
    # The way in of the witness may be there since an earlier look.
    own = f"/{interpreters.WAY_IN}"
    exists = [path for path in order["paths"] if os.path.lexists(path) and not path.endswith(own)]
    path = [posixpath.join(order["workdir"], entry) for entry in environment.get("PATH", os.defpath).split(":")]
    search = [_filled(text, home, order["workdir"]) for text in order.get("search", ())]
    first = [*(folder for folder in search if folder), f"{home}/.local/bin"]
    homes, sourced = _homes(), _on_the_way(order.get("sourced", ()), order, home)
    further, more = shells.reads([home, *homes], sorted(sourced))
    first += [folder for folder in more if folder not in path]
    first += named.environments([*path, *first], order.get("words", ()))
    if known := order.get("known"):
        programs, source, pythons = known["programs"], known["pytest"], known["pythons"]
        _lend(order, source, pythons[0])
    else:
        words = order.get("words", ())
        starters = [name for name in named.STARTERS if name in words]
        words = [*words, *(f"{folder}/{name}" for folder in first for name in starters)]
        programs = dict(named.programs_of(words, [*path, *first], order["workdir"]))
        ours = order.get("ours")
        runs = programs if ours is None else {name: at for name, at in programs.items() if ours.get(name) == at}
        source, facts = _python(order, environment, runs)
        pythons = [*([facts] if facts else []), *_other_pythons(order, runs, facts, environment)]
        if pythons and not facts and not order.get("lent"):
            _lend(order, source, pythons[0])
    every = [*order["paths"], *order.get("removed", ())]
    canonical = {path: real for path in every if (real := named.canonical_path(path)) != path}
    modules_at = [_filled(text, home, order["workdir"]) for text in order.get("modules_at", ())]
    answer: dict[str, Any] = {
        "exists": exists,
        "modes": {at: stat.S_IMODE(os.lstat(at).st_mode) for at in every if os.path.lexists(at)},
        "folders": [path for path in exists if os.path.isdir(path) and not os.path.islink(path)],
        "astray": _astray(order, canonical),
        "canonical": canonical,
        "bash": any(os.access(f"{folder}/bash", os.X_OK) for folder in path),
        "home": home,
        "homes": homes,
        "workdir": os.path.realpath(order["workdir"]),
        "path": [os.path.realpath(folder) for folder in path],
        "first": [os.path.realpath(folder) for folder in first],
        "modules_at": [os.path.realpath(folder) for folder in modules_at if folder],
        "named": sorted({*sourced, *_on_the_way(further, order, home)}),
        "unasked": sorted(_on_the_way(map(environment.get, _FILES_BY_VARIABLE), order, home)),
        "programs": programs,
        "grounds": named.grounds(programs),
        "pytest": source,
        "pythons": [{key: value for key, value in one.items() if key not in ("new", "pytest")} for one in pythons],
        "sessions": _sessions(order, pythons, programs, environment) if order.get("session") else [],
    }
    asked = known or ({"searched": {}} if "ours" in order else {})
    answer["searched"] = asked["searched"] if "searched" in asked else _searched(answer, environment)
    if order.get("deep") or _is_deep(order, canonical, answer, environment):
        answer |= _deep(order, exists, canonical, answer, environment)
    return answer


def _homes() -> list[str]:
    found = re.findall(r"^(?:[^:\n]*:){5}(/[^:\n]+):(?!.*/(?:nologin|false)$)", _text("/etc/passwd"), re.M)
    return sorted({*found, "/etc/skel"})  # of which homes are made


def _astray(order: dict[str, Any], canonical: dict[str, str]) -> list[str]:
    links = order.get("links", {})
    handed_in, taken = {canonical.get(path, path): links.get(path, "") for path in order["paths"]}, itertools.count()
    return [path for path in links
            if next(taken) > _STEPS or any(map(_SEALED.match, named.steps(path, handed_in, taken)))]  # fmt: skip


def _filled(text: str, home: str, workdir: str) -> str:
    """A path as a script spells it, made absolute; empty where it holds a variable of unknown value."""
    text = re.sub(r"^~(?=/|$)|\$HOME\b|\$\{HOME\}", home, text.strip("'\""))
    text = re.sub(r"\$PWD\b|\$\{PWD\}", workdir, text)
    return "" if "$" in text or "`" in text or "*" in text else posixpath.normpath(posixpath.join(workdir, text))


def _python(
    order: dict[str, Any], environment: dict[str, str], programs: dict[str, list[str]]
) -> tuple[str, dict[str, Any] | None]:
    """Where python3 gets pytest from, and what it says of itself, where it is one of ``programs``."""
    path = environment.get("PATH", os.defpath).split(":") if "python3" in programs else []
    python = next((at for folder in path if named.is_program(at := f"{folder}/python3")), None)
    facts = interpreters.facts(python, environment, order["pure"]) if python else None
    if facts is None:
        return "none", None
    source = "own" if facts["pytest"] else "pure" if facts["new"] else "none"
    if not order.get("lent"):
        _lend(order, source, facts)
    return source, {**facts, "program": python}


def _lend(order: dict[str, Any], source: str, python: dict[str, Any]) -> None:
    interpreters.lend([*python["sites"], *python["user"]], order["lib"], order["pure"] if source == "pure" else "")


def _other_pythons(
    order: dict[str, Any], programs: dict[str, list[str]], first: dict[str, Any] | None, environment: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """The Pythons beside python3 that names of the tests start, those of scripts included; each once."""
    seen = {_identity([first["program"], os.path.realpath(first["program"])])} if first else set()
    for name, chain in sorted(programs.items()):
        if _PYTHON.fullmatch(posixpath.basename(name)) and len(seen) < 6 and (key := _identity(chain)) not in seen:
            seen.add(key)
            if facts := interpreters.facts(chain[0], environment, order["pure"]):
                yield {**facts, "program": chain[0]}


def _identity(chain: list[str]) -> tuple[str, str]:
    """Two names of one interpreter are the same Python, unless one of them lies in a virtual environment."""
    folders = (posixpath.dirname(posixpath.dirname(link)) for link in chain)
    return chain[-1], next((folder for folder in folders if os.path.lexists(f"{folder}/pyvenv.cfg")), "")


def _sessions(
    order: dict[str, Any],
    pythons: list[dict[str, Any]],
    programs: dict[str, list[str]],
    environment: dict[str, str],
) -> list[dict[str, Any]]:
    """For each Python what a session of it loads, with the modules that the tests and the Python scripts among their
    programs import (none where the order says None)."""
    wanted = order.get("imports")
    scripts = {name for chain in programs.values() for name in named.imported_by(chain[-1])}
    imports = [] if wanted is None else sorted({*wanted, *scripts})
    sessions: list[dict[str, Any]] = []
    for python in pythons:
        paths = [order["lib"], *filter(None, [environment.get("PYTHONPATH")])]
        extra = {**order.get("env", {}), "PYTHONPATH": ":".join(paths)}
        compiled = order.get("compiled")
        if compiled is not None:
            compiled = [*python["stdlib"], *python["sites"], *python["user"], *compiled]
        found = interpreters.session(python["program"], extra, imports, compiled)
        sessions.append(found or {"failed": True})
    return sessions


def _on_the_way(spelled: Iterable[str | None], order: dict[str, Any], home: str) -> set[str]:
    """Files that variables or scripts of the tests spell, links on the way included."""
    files = [_filled(text, home, order["workdir"]) for text in spelled if text]
    return {step for file in files if file for step in (named.canonical_path(file), *named.steps(file))}


def _is_deep(
    order: dict[str, Any], canonical: dict[str, str], answer: dict[str, Any], environment: dict[str, str]
) -> bool:
    """Whether anything lies outside of the working directory, or where programs, libraries or modules are looked for,
    as far as a variable says."""
    workdir = os.path.realpath(order["workdir"])
    looked_at = [*answer["path"], *answer["first"]]
    listed = [value for name, value in environment.items() if name not in ("PWD", "OLDPWD")]
    looked_at += [os.path.realpath(entry) for entry in re.split("[:;]", ":".join(listed)) if entry.startswith("/")]
    looked_at += map(os.path.realpath, _libraries_at(order, environment, answer))
    looked_at += [folder for python in answer["pythons"] for folder in python["path"]]
    if workdir == "/" or any(folder == workdir or folder.startswith(workdir + "/") for folder in looked_at):
        return True
    paths = [*order["paths"], *order.get("removed", ())]
    return any(not canonical.get(path, path).startswith(workdir + "/") for path in paths)


def _deep(
    order: dict[str, Any],
    exists: list[str],
    canonical: dict[str, str],
    answer: dict[str, Any],
    environment: dict[str, str],
) -> dict[str, Any]:
    """What only matters to submissions that reach beyond the working directory."""
    from hc_ray.sandboxes.inside.grading import libraries, packages

    hidden = toolchains.hidden
    programs = {chain[-1] for chain in answer["programs"].values()}
    programs |= {os.path.realpath(python["program"]) for python in answer["pythons"]}
    mapped = {file for session in answer["sessions"] for file in session.get("mapped", ())} | {*order.get("mapped", ())}
    folders = libraries.search_folders(_libraries_at(order, environment, answer))
    found, loaders = libraries.closure([*programs, *sorted(mapped)], folders)
    files = {step for path in [*loaders, *(p for known in found.values() for p in known)] for step in named.steps(path)}
    removed = [path for path in order.get("removed", ()) if os.path.lexists(path)]
    changed = [canonical.get(path, path) for path in [*exists, *removed]]
    known_before = set(exists)
    new = {path: canonical.get(path, path) for path in order["paths"] if path not in known_before}
    found_first = {path: toolchains.found_first(at, answer["searched"]) for path, at in new.items()}
    by_name = {path: late for path, late in found_first.items() if late}
    hides = {path: late for path, at in new.items() if (late := [*hidden(at, folders), *hidden(at, answer["path"])])}
    hides |= by_name
    code = [*changed, *(file for late in hides.values() for file in late)]
    owned = {*packages.code_of(code, {*programs, *files, *mapped}), *packages.beside(changed, answer["programs"])}
    return {
        "libraries": found,
        "library_files": sorted(files | mapped),
        "loader": folders,
        "cached": libraries.cached(found),
        "owned": sorted(owned.intersection(changed)),
        "accounts": {path: _text(path) for path in _ACCOUNTS if path in order["paths"]},
        "hidden": [path for path, late in hides.items() if path in by_name or not owned.isdisjoint(late)],
    }


def _libraries_at(order: dict[str, Any], environment: dict[str, str], answer: dict[str, Any]) -> list[str]:
    """What LD_LIBRARY_PATH lists, as scripts of the tests set it or as it is."""
    value = environment.get("LD_LIBRARY_PATH", "")
    spelled = [re.sub(r"\$\{?LD_LIBRARY_PATH\b\}?", value, text) for text in order.get("libraries_at", ())]
    return [folder for text in (*spelled, value) for folder in _in_order(text, answer) if "$" not in folder]


def _searched(answer: dict[str, Any], environment: dict[str, str]) -> dict[str, list[str]]:
    variables = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
    headers = [folder for name in variables for folder in _in_order(environment.get(name), answer)]
    return toolchains.searched(answer["programs"], environment, headers)


def _in_order(value: str | None, answer: dict[str, Any]) -> list[str]:
    """The folders that a variable of the loader or the C compiler lists; one that is spelt from where a program runs,
    an empty one too, for each folder that the tests run in."""
    run_in = (answer["workdir"], *answer["modules_at"])
    return [posixpath.join(at, entry) for entry in re.split("[:;]", value) for at in run_in] if value else []


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_TEXT_LIMIT).decode(errors="replace")
    except OSError:
        return ""


def remember_libraries(ldconfig: str) -> None:
    """Have the image's own ldconfig read the libraries anew, without making links: names that are new are found then.
    Where a file system is read-only, nothing changes."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run([ldconfig, "-X"], capture_output=True, timeout=60, check=False)


def main() -> None:
    order = json.load(sys.stdin)
    processes.adopt_orphans()
    answer = probe(order)
    # Whatever was run of the image is dead before the tests come.
    if not processes.kill_below(2.0, processes.reap, alone=False):
        sys.stdout.write(f"{order['nonce']} {json.dumps(answer)}\n")
