"""Edits of ELF files in place, so that a copied interpreter finds its own loader and libraries and nobody else's.

Only 64-bit little-endian ELF (x86-64, arm64). No tool is needed: the new strings take the room of the old loader's
name, which is longer. Layouts after the System V ABI and glibc's ``elf.h``."""

import struct

from hc_ray.sandboxes.inside.grading.libraries import DYNAMIC, INTERP, RPATH, RUNPATH, STRTAB, entries_of, segments_of

_DEBUG = 21
"""A tag that nobody reads in a library."""
_ENTRY = struct.Struct("<QQ")


class ElfFile:
    """The bytes of one ELF file, with the few places that are edited."""

    def __init__(self, data: bytes) -> None:
        """Raises ``ValueError`` where ``data`` is no 64-bit little-endian ELF file."""
        self.data = bytearray(data)
        found = segments_of(lambda size, at: data[at : at + size])
        self._segments = {kind: (offset, address, size) for kind, offset, address, size in reversed(found)}
        """Type → file offset, virtual address and size in the file of the first segment of that type."""

    @property
    def interpreter(self) -> str | None:
        """The loader that the file asks for; None for a library or a static program."""
        if INTERP not in self._segments:
            return None
        offset, _, size = self._segments[INTERP]
        return bytes(self.data[offset : offset + size]).split(b"\0", 1)[0].decode()

    def _dynamic(self) -> list[tuple[int, int, int]]:
        """(offset of the entry, tag, value) of the dynamic section, up to its end."""
        offset, _, size = self._segments.get(DYNAMIC, (0, 0, 0))
        entries = entries_of(self.data[offset : offset + size])
        return [(offset + number * _ENTRY.size, tag, value) for number, (tag, value) in enumerate(entries)]

    def forget_search_paths(self) -> None:
        """Drop RUNPATH and RPATH: with a RUNPATH of its own a library would not be searched by the program's RPATH."""
        for at, tag, value in self._dynamic():
            if tag in (RUNPATH, RPATH):
                _ENTRY.pack_into(self.data, at, _DEBUG, value)  # the table keeps its length

    def set_loader(self, loader: str, libraries: str) -> None:
        """Make a program start by ``loader`` and find its libraries in the folder ``libraries`` (as RPATH, which comes
        before ``LD_LIBRARY_PATH`` and holds for the libraries' own needs and for ``dlopen`` too).

        Raises ``ValueError`` for a program that has no loader or whose loader's name is too short to be replaced."""
        found = self._segments.get(INTERP)
        dynamic = self._dynamic()
        strings = next((value for _, tag, value in dynamic if tag == STRTAB), None)
        if found is None or strings is None:
            raise ValueError("a statically linked program has no loader to replace")
        offset, address, size = found
        text = loader.encode() + b"\0" + libraries.encode() + b"\0"
        if len(text) > size:
            raise ValueError(f"no room for {loader} and {libraries} in the place of {self.interpreter}")
        entries = {tag: at for at, tag, _ in dynamic}
        at = next((entries[tag] for tag in (RPATH, RUNPATH, _DEBUG) if tag in entries), None)
        if at is None:
            raise ValueError("the program's dynamic section has no entry to spare")
        self.forget_search_paths()
        self.data[offset : offset + size] = text.ljust(size, b"\0")
        # The RPATH is named by its distance from the string table; the table is not bounds-checked, the sum wraps.
        distance = (address + len(loader) + 1 - strings) % (1 << 64)
        _ENTRY.pack_into(self.data, at, RPATH, distance)
