"""Which shared libraries programs load, by reading: no program is run and no loader asked.

64-bit little-endian ELF (x86-64, arm64), glibc and musl. Layouts after the System V ABI, glibc's ``elf.h`` and
``dl-cache.h``. Files may be hostile: whatever cannot be read is no ELF file. Standard library only."""

import glob
import os
import posixpath
import re
import stat
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOAD, DYNAMIC, INTERP = 1, 2, 3
_NEEDED, STRTAB, _STRSZ, RPATH, RUNPATH = 1, 5, 10, 15, 29
_STRINGS_LIMIT = 1 << 20
_CACHE = "/etc/ld.so.cache"
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_LIMIT = 16 << 20
_DEFAULT = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
_MULTIARCH = re.compile(r"[a-z0-9_]+-linux-(gnu|musl)[a-z0-9]*")


@dataclass(frozen=True)
class Elf:
    """What the loader reads of one file."""

    loader: str
    needed: tuple[str, ...]
    folders: tuple[str, ...]
    """RPATH and RUNPATH, ``$ORIGIN`` filled in."""


def read_elf(path: str) -> Elf | None:
    """None for what is no 64-bit little-endian ELF file, or a broken one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return _parse(descriptor, path)
    except (OSError, struct.error, ValueError, OverflowError):
        return None
    finally:
        os.close(descriptor)


Segment = tuple[int, int, int, int]
"""Type, offset, address and size in the file."""


def segments_of(read: Callable[[int, int], bytes]) -> list[Segment]:
    """Of an ELF file that ``read(size, offset)`` reads. Raises ``ValueError`` for any other file."""
    header = read(64, 0)
    if header[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    raw = read(size * min(count, 128), table)
    found = (struct.unpack_from("<IIQQQQQQ", raw, at) for at in range(0, len(raw) - 55, size))
    return [(kind, offset, address, length) for kind, _, offset, address, _, length, _, _ in found]


def entries_of(dynamic: bytes | bytearray) -> list[tuple[int, int]]:
    """Tag and value of each entry of a dynamic section."""
    entries = []
    for at in range(0, len(dynamic) - 15, 16):
        tag, value = struct.unpack_from("<QQ", dynamic, at)
        if tag == 0:
            break
        entries.append((tag, value))
    return entries


def _parse(descriptor: int, path: str) -> Elf:
    segments = segments_of(lambda size, at: os.pread(descriptor, size, at))
    loader = next((_text(os.pread(descriptor, min(s[3], 4096), s[1]), 0) for s in segments if s[0] == INTERP), "")
    dynamic = next((os.pread(descriptor, min(s[3], 1 << 16), s[1]) for s in segments if s[0] == DYNAMIC), b"")
    entries = entries_of(dynamic)
    address = next((value for tag, value in entries if tag == STRTAB), None)
    length = next((value for tag, value in entries if tag == _STRSZ), 0)
    strings = b""
    for kind, offset, start, size in segments:
        if kind == _LOAD and address is not None and start <= address < start + size:
            strings = os.pread(descriptor, min(length, _STRINGS_LIMIT), offset + address - start)
    kinds = (_NEEDED, RPATH, RUNPATH)
    names = {kind: [_text(strings, value) for tag, value in entries if tag == kind] for kind in kinds}
    origin = posixpath.dirname(os.path.realpath(path))
    paths = [piece for text in (*names[RPATH], *names[RUNPATH]) for piece in text.split(":")]
    folders = [re.sub(r"\$\{?ORIGIN\}?", origin, piece) for piece in paths if piece]
    return Elf(loader, tuple(names[_NEEDED]), tuple(posixpath.normpath(folder) for folder in folders))


def _text(data: bytes, at: int) -> str:
    return data[at : at + 4096].split(b"\0", 1)[0].decode(errors="replace")


def search_folders(first: Sequence[str] = ()) -> list[str]:
    """Where the loader looks for libraries that name no folder of their own, real paths, in its order. ``first``: what
    LD_LIBRARY_PATH lists."""
    folders = [*first]
    folders += _configured("/etc/ld.so.conf", 0)
    for name in sorted(glob.glob("/etc/ld-musl-*.path")):
        folders += re.split(r"[:\s]+", _contents(name))
    for folder in _DEFAULT[:2]:
        try:
            folders += [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if _MULTIARCH.fullmatch(name)]
        except OSError:
            continue
    folders += _DEFAULT
    return list(dict.fromkeys(os.path.realpath(folder) for folder in folders if folder.startswith("/")))


def _configured(path: str, depth: int) -> list[str]:
    folders: list[str] = []
    for line in _contents(path).splitlines():
        words = line.partition("#")[0].replace(":", " ").replace(",", " ").split()
        if words[:1] == ["include"] and depth < 4:
            for pattern in words[1:]:
                for name in sorted(glob.glob(posixpath.join(posixpath.dirname(path), pattern))):
                    folders += _configured(name, depth + 1)
        else:
            folders += [word.partition("=")[0] for word in words]
    return folders


def _contents(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace") if Path(path).is_file() else ""
    except OSError:
        return ""


def closure(programs: Iterable[str], folders: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """(name of a library → every file that could be loaded under it: those of the programs' own search folders by name,
    then the loader's; files of loaders). The same whatever the order of the programs.

    All candidates are named, not the first one alone: which is taken depends on the processor and on the cache."""
    own: dict[str, set[str]] = {}
    usual: dict[str, list[str]] = {}
    loaders: dict[str, None] = {}
    pending, seen = list(programs), set[str]()
    while pending:
        path = os.path.realpath(pending.pop())
        if path in seen:
            continue
        seen.add(path)
        elf = read_elf(path)
        if elf is None:
            continue
        if elf.loader:
            loaders[elf.loader] = None
        for name in elf.needed:
            named = [name] if "/" in name else [posixpath.join(folder, name) for folder in elf.folders]
            candidates = [path for path in named if os.path.lexists(path)]
            own.setdefault(name, set()).update(candidates)
            if name not in usual:
                usual[name] = [p for folder in folders for p in _below(folder, name)]
            pending += [*candidates, *usual[name]]
    found = {name: list(dict.fromkeys([*sorted(paths), *usual[name]])) for name, paths in own.items()}
    return found, sorted(loaders)


def _below(folder: str, name: str) -> list[str]:
    """A library in a folder of the loader's and in those folders below it that hold builds for certain processors."""
    found = [f"{folder}/{name}"] if os.path.lexists(f"{folder}/{name}") else []
    for special in ("glibc-hwcaps/*", "tls", "x86_64", "haswell"):
        found += sorted(glob.glob(f"{glob.escape(folder)}/{special}/{glob.escape(name)}"))
    return found


def cached(names: Iterable[str]) -> dict[str, list[str]]:
    """What ``ld.so.cache`` answers for some names of libraries; nothing where there is no cache that can be read."""
    wanted = {name.encode() for name in names}
    found: dict[str, list[str]] = {}
    try:
        with open(_CACHE, "rb") as file:
            data = file.read(_CACHE_LIMIT)
        start = data.find(_CACHE_MAGIC)
        if start < 0:
            return {}
        data = data[start:]
        (count,) = struct.unpack_from("<I", data, 20)
        for index in range(min(count, 1 << 17)):
            _, key, value = struct.unpack_from("<iII", data, 48 + 24 * index)
            name = data[key : key + 256].split(b"\0", 1)[0]
            if name in wanted:
                path = data[value : value + 4096].split(b"\0", 1)[0]
                found.setdefault(name.decode(errors="replace"), []).append(path.decode(errors="replace"))
    except (OSError, struct.error):
        return {}
    return found
