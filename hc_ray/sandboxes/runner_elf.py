"""Edits of ELF files in place, so that a copied interpreter finds its own loader and libraries and nobody else's.

Only 64-bit little-endian ELF (x86-64, arm64). No tool is needed: the new strings take the room of the old loader's
name, which is longer. Layouts after the System V ABI and glibc's ``elf.h``."""

import struct

_PT_DYNAMIC, _PT_INTERP = 2, 3
_DT_STRTAB, _DT_RPATH, _DT_DEBUG, _DT_RUNPATH = 5, 15, 21, 29
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")


class ElfFile:
    """The bytes of one ELF file, with the few places that are edited."""

    def __init__(self, data: bytes) -> None:
        """Raises ``ValueError`` where ``data`` is no 64-bit little-endian ELF file."""
        if data[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = bytearray(data)
        header = _HEADER.unpack_from(data)
        offset, size, count = header[5], header[9], header[10]
        self.segments = [_SEGMENT.unpack_from(data, offset + i * size) for i in range(count)]

    def _first(self, kind: int) -> tuple[int, int, int] | None:
        """File offset, virtual address and size in the file of the first segment of a kind."""
        for segment in self.segments:
            if segment[0] == kind:
                return segment[2], segment[3], segment[5]
        return None

    @property
    def interpreter(self) -> str | None:
        """The loader that the file asks for; None for a library or a static program."""
        found = self._first(_PT_INTERP)
        if found is None:
            return None
        offset, _, size = found
        return bytes(self.data[offset : offset + size]).split(b"\0", 1)[0].decode()

    def _dynamic(self) -> list[tuple[int, int, int]]:
        """(offset of the entry, tag, value) of the dynamic section, up to its end."""
        found = self._first(_PT_DYNAMIC)
        if found is None:
            return []
        entries, offset = [], found[0]
        for at in range(offset, offset + found[2], _DYNAMIC.size):
            tag, value = _DYNAMIC.unpack_from(self.data, at)
            if tag == 0:
                break
            entries.append((at, tag, value))
        return entries

    def forget_search_paths(self) -> None:
        """Drop RUNPATH and RPATH: with a RUNPATH of its own a library would not be searched by the program's RPATH."""
        for at, tag, value in self._dynamic():
            if tag in (_DT_RUNPATH, _DT_RPATH):
                # DT_DEBUG is read by nobody in a library, and keeps the table's length.
                _DYNAMIC.pack_into(self.data, at, _DT_DEBUG, value)

    def set_loader(self, loader: str, libraries: str) -> None:
        """Make a program start by ``loader`` and find its libraries in the folder ``libraries`` (as RPATH, which comes
        before ``LD_LIBRARY_PATH`` and holds for the libraries' own needs and for ``dlopen`` too).

        Raises ``ValueError`` for a program that has no loader or whose loader's name is too short to be replaced."""
        found = self._first(_PT_INTERP)
        dynamic = self._dynamic()
        strings = next((value for _, tag, value in dynamic if tag == _DT_STRTAB), None)
        if found is None or strings is None:
            raise ValueError("a statically linked program has no loader to replace")
        offset, address, size = found
        text = loader.encode() + b"\0" + libraries.encode() + b"\0"
        if len(text) > size:
            raise ValueError(f"no room for {loader} and {libraries} in the place of {self.interpreter}")
        entries = {tag: at for at, tag, _ in dynamic}
        at = next((entries[tag] for tag in (_DT_RPATH, _DT_RUNPATH, _DT_DEBUG) if tag in entries), None)
        if at is None:
            raise ValueError("the program's dynamic section has no entry to spare")
        self.forget_search_paths()
        self.data[offset : offset + size] = text.ljust(size, b"\0")
        # The RPATH is named by its distance from the string table; the table is not bounds-checked, the sum wraps.
        distance = (address + len(loader) + 1 - strings) % (1 << 64)
        _DYNAMIC.pack_into(self.data, at, _DT_RPATH, distance)
