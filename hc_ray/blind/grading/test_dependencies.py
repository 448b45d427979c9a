"""What the text of the tests names, so that the probe can look it up in the untouched image: words that may be
programs, files that scripts source, folders that they put on search paths, modules that they import. Pure.

A name too many costs a look-up; names are only ever sent into the verifier's own sandbox, before anything of the
submission is in it."""

import posixpath
import re
from collections.abc import Iterable, Mapping

from hc_ray.domain.value import Value

_BASE = """
sh bash dash env python3 python as awk bzip2 cat cc cp cut chmod chown date dirname basename diff echo expr false find
getent grep egrep fgrep gzip gunzip head id install kill ld ldconfig ln ls mkdir mkfifo mktemp mv nice nohup nproc
perl pkill printf ps pwd readlink realpath rm rmdir runuser sed seq setpriv sleep sort stat su sudo tail tar tee test [
/sbin/ldconfig timeout touch tr true tty uname uniq wait wc which whoami xargs xz yes zstd
"""
BASE = tuple(_BASE.split())
"""Programs that shells and test scripts start without a second thought, and that those and Python's own library do."""
WORDS = 40_000
"""More names than any tests mention. The first ones count: those of ``test.sh``, then of small files; large ones are
data."""
_TEXT_LIMIT = 1 << 20
_WORD = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.+-]{0,60}")
_PROGRAM_PATH = re.compile(r"(?<![\w./~-])(?:/[\w.+@-]+){2,8}")
_SOURCED = re.compile(r"(?:^|[;&|({]|\bthen\b|\bdo\b|\belse\b)\s*(?:source|\.)\s+([^\s;&|)]+)", re.M)
_PATH = re.compile(r"\bPATH=([^\s;]+)")
_LIBRARY_PATH = re.compile(r"^\s*export\s+LD_LIBRARY_PATH=([^\s;]+)", re.M)
_MODULE_PATH = re.compile(r"\bPYTHONPATH=([^\s;]+)|^\s*cd\s+([^\s;&|]+)", re.M)
_IMPORTS = re.compile(
    r"(?:^|[;'\"])\s*(?:from\s+([A-Za-z_][\w.]*)\s+import\b[ (]*([\w, ]*)|import\s+([A-Za-z_][\w., ]*))", re.M
)
_RUN_AS_MODULE = re.compile(
    r"\bpython[\d.]*\s+(?:-[A-Za-z]+\s+)*-m\s+([A-Za-z_]\w*)|['\"]-m['\"],\s*['\"]([A-Za-z_]\w*)"
)


class Mentions(Value):
    """Names as spelled in the tests; variables in them are resolved where the tests will run."""

    words: tuple[str, ...] = BASE
    shell_words: frozenset[str] = frozenset()
    """Those of shell scripts alone: what such a script starts by itself."""
    sourced: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    """Folders that scripts put on PATH."""
    modules_at: tuple[str, ...] = ()
    """Folders that scripts put on PYTHONPATH, or run in."""
    imports: tuple[str, ...] = ()
    libraries_at: tuple[str, ...] = ()
    """Values that scripts give to LD_LIBRARY_PATH."""


def mentions(tests: Mapping[str, tuple[bytes, bool]]) -> Mentions:
    """Read the tests' files (path → content and whether executable)."""
    words: dict[str, None] = dict.fromkeys(BASE)
    shell: set[str] = set()
    sourced: list[str] = []
    search: list[str] = []
    modules_at: list[str] = []
    imports: list[str] = []
    libraries_at: list[str] = []
    for path in sorted(tests, key=lambda name: (name != "test.sh", len(tests[name][0]), name)):
        content = tests[path][0]
        if b"\0" in content[:1024]:
            continue
        text = content[:_TEXT_LIMIT].decode(errors="replace")
        found = [*_WORD.findall(text), *_PROGRAM_PATH.findall(text)]
        words |= dict.fromkeys(found)
        if path.endswith(".sh") or re.match(r"#!.*sh\b", text):
            shell |= set(found)
            sourced += _SOURCED.findall(text)
            search += _folders(_PATH.findall(text))
            libraries_at += [value.strip("'\"") for value in _LIBRARY_PATH.findall(text)]
            modules_at += _folders(first or second for first, second in _MODULE_PATH.findall(text))
        for module, parts, several in _IMPORTS.findall(text):
            imports += [module] if module else []
            # What it takes from a module may be a module that is loaded only now.
            imports += [f"{module}.{one}".lstrip(".") for one in _spelled(parts if module else several)]
        imports += [first or second for first, second in _RUN_AS_MODULE.findall(text)]
    search += [posixpath.dirname(file.strip("'\"")) for file in sourced if file.strip("'\"").endswith("/activate")]
    own = {path.partition("/")[0].partition(".")[0] for path in tests}
    return Mentions(
        words=tuple(words)[:WORDS],
        shell_words=frozenset(shell),
        sourced=_once(file for file in sourced if not file.startswith(("/tests", "-"))),
        search=_once(search),
        modules_at=_once(modules_at),
        imports=_once(name for name in imports if name.partition(".")[0] not in own),
        libraries_at=_once(libraries_at),
    )


def _folders(values: Iterable[str]) -> list[str]:
    """The parts of search paths that are not what they were before."""
    parts = [part for value in values for part in value.strip("'\"").split(":")]
    return [part for part in parts if part and part not in ("$PATH", "${PATH}", "$PYTHONPATH", "${PYTHONPATH}", "-")]


def _spelled(names: str) -> list[str]:
    """The modules of a list of imports, without the names that they are given."""
    return [one.split()[0].rstrip(".") for one in names.split(",") if one.strip()]


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))[:200]
