"""Which files names of programs lead to, every link on the way included. Standard library only."""

import functools
import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

_DRIVER = re.compile(r"(python|pypy|pip)[\d.]*|pytest|py\.test|activate")
STARTERS = ("python", "python3", "pytest")
"""Of each environment that scripts may enter, those that start its tests."""
_CODE = re.compile(r"s?bin|lib[^/]*|src|pkg|include|node_modules|jmods|sdk|shared|host")
_OF_ALL = re.compile(r"(/usr(/local)?|.*/\.local)?")
"""Where programs of all kinds lie together."""
_LINKS = 40
_UNCOUNTED = itertools.repeat(0)
_SCRIPT_LIMIT = 1 << 16


def steps(path: str, handed_in: Mapping[str, str] | None = None, taken: Iterator[int] | None = None) -> Iterator[str]:
    """Every link that the way to ``path`` leads through, and the path at its end. ``handed_in``: what will lie at some
    real paths, the target of a link or an empty text for anything else. ``taken`` counts folders on the way."""
    pending, real, links = [part for part in reversed(path.split("/")) if part], "", 0
    while pending:
        part = pending.pop()
        next(taken or _UNCOUNTED)
        if part in (".", ""):
            continue
        if part == "..":
            real = posixpath.dirname(real).rstrip("/")
            continue
        here = f"{real}/{part}"
        placed = handed_in.get(here) if handed_in else None
        target = placed if placed is not None else os.readlink(here) if os.path.islink(here) else ""
        if target and links < _LINKS:
            links += 1
            yield here
            real = "" if target.startswith("/") else real
            pending += [part for part in reversed(target.split("/")) if part]
        else:
            real = here
    yield real or "/"


def canonical_path(path: str) -> str:
    """The path with the links of its folders resolved, its own name as it is."""
    return posixpath.join(_real_folder(posixpath.dirname(path)), posixpath.basename(path))


@functools.lru_cache(maxsize=1 << 16)
def _real_folder(folder: str) -> str:
    """As ``os.path.realpath``, which would look at each folder above a hundred thousand paths again for each."""
    above, name = posixpath.split(folder)
    if name in ("", ".", ".."):
        return os.path.realpath(folder)
    place = posixpath.join(_real_folder(above), name)
    return os.path.realpath(place) if os.path.islink(place) else place


def programs_of(words: Iterable[str], path: list[str], workdir: str) -> Iterator[tuple[str, list[str]]]:
    """(name, every link and file on the way to the program that it starts). Names that start none are left out. A
    script's interpreter counts as named too."""
    pending, seen = list(words), set[str]()
    held = [(folder or ".", _names(folder or ".")) for folder in path]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        inside = name.startswith(workdir.rstrip("/") + "/") and not _DRIVER.fullmatch(posixpath.basename(name))
        places = (f"{folder}/{name}" for folder, names in held if name in names)
        found = name if "/" in name else next(filter(is_program, places), "")
        if not found.startswith("/") or ("/" in name and inside) or not is_program(found):
            continue
        yield name, list(dict.fromkeys([canonical_path(found), *steps(found)]))
        pending += _interpreter(os.path.realpath(found))


def environments(path: Iterable[str], words: Iterable[str]) -> list[str]:
    """Where the programs of environments lie that a manager beside a folder of programs keeps, and the tests name."""
    kept, known = {f"{posixpath.dirname(folder)}/envs" for folder in path}, {*words}
    return sorted(f"{folder}/{name}/bin" for folder in kept for name in _names(folder) & known)


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _interpreter(path: str) -> list[str]:
    """The programs that the first line of a script names."""
    words = _script(path).split("\n", 1)[0][2:].split()
    if words and words[0].endswith("/env"):
        return [words[0], *[word for word in words[1:] if not word.startswith("-") and "=" not in word][:1]]
    return words[:1]


def grounds(programs: Mapping[str, Sequence[str]]) -> list[str]:
    """Folders of code that programs stand on which were unpacked or built: in a folder of their name, or, of those that
    are no scripts, beside a ``bin`` that is not everybody's. Python's own are none. ``programs``: names to links on the
    way, last the real path."""
    found = set()
    for name, chain in programs.items():
        if not (stem := own_stem(name, chain)):
            continue
        place = posixpath.dirname(chain[-1])
        above = re.match(rf"(/.*?)?/{stem}[-v.\d]*(?=/)", place + "/")
        roots = {above[0]} if above else set()
        prefix, last = posixpath.split(place)
        its_own = last in ("bin", "sbin") and not _OF_ALL.fullmatch(prefix)
        if its_own and _begins(chain[-1], b"\x7fELF") and not any(map(_DRIVER.fullmatch, _names(place))):
            roots.add(prefix)
        found |= {f"{root}/{part}" for root in roots for part in _names(root) if _CODE.fullmatch(part)}
    return sorted(found)


def own_stem(name: str, chain: Sequence[str]) -> str:
    """What a program is called whatever its version, as a pattern; empty for Python's own."""
    stem = re.escape(re.sub(r"[-.\d]+$", "", posixpath.basename(name)))
    return "" if re.match(r"python|pypy|pip", stem) or imported_by(chain[-1]) else stem


def imported_by(path: str) -> list[str]:
    """The top-level modules that a script of Python's imports, as those do that pip makes."""
    first, _, rest = _script(path).partition("\n")
    if "python" not in first:
        return []
    return re.findall(r"^(?:from|import) +([A-Za-z_]\w*)", rest, re.M)


def _script(path: str) -> str:
    """The beginning of a file that names its interpreter; empty for any other."""
    return _begins(path, b"#!").decode(errors="replace")


def _begins(path: str, sign: bytes) -> bytes:
    """The beginning of a file that begins so; empty for any other."""
    try:
        with open(path, "rb") as file:
            return sign + file.read(_SCRIPT_LIMIT) if file.read(len(sign)) == sign else b""
    except OSError:
        return b""
