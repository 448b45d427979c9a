import subprocess
from pathlib import Path

import pytest

from hc_ray.sandboxes.inside.grading.libraries import read_elf
from hc_ray.sandboxes.runner_build import base_python
from hc_ray.sandboxes.runner_elf import ElfFile


def test_a_program_gets_the_loader_and_the_folder_of_libraries_that_it_is_told() -> None:
    elf = ElfFile(base_python().read_bytes())
    length = len(elf.data)
    elf.set_loader("/opt/hc/ld.so", "/opt/hc/lib")
    again = ElfFile(bytes(elf.data))
    assert again.interpreter == "/opt/hc/ld.so" and len(again.data) == length
    assert b"/opt/hc/ld.so\0/opt/hc/lib\0" in again.data


def test_a_program_so_edited_asks_for_that_loader_when_it_starts(tmp_path: Path) -> None:
    elf = ElfFile(base_python().read_bytes())
    elf.set_loader("/no/ld.so", "/no/lib")
    program = tmp_path / "python"
    program.write_bytes(elf.data)
    program.chmod(0o755)
    with pytest.raises(FileNotFoundError):
        subprocess.run([str(program), "-c", "1"], check=False)
    loader = ElfFile(base_python().read_bytes()).interpreter
    assert loader is not None
    listed = subprocess.run([loader, "--list", str(program)], capture_output=True, text=True, check=False)
    assert "libc.so.6" in listed.stdout, listed.stderr


def test_a_name_that_does_not_fit_is_refused_and_a_library_forgets_where_it_searched(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no room"):
        ElfFile(base_python().read_bytes()).set_loader("/a/folder/with/a/long/name/ld.so", "/lib")
    elf = ElfFile(base_python().read_bytes())
    elf.forget_search_paths()
    (tmp_path / "library").write_bytes(elf.data)
    read = read_elf(str(tmp_path / "library"))
    assert read is not None and read.needed and read.folders == ()


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + b"\0" * 60])
def test_what_is_no_program_of_64_bits_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF"):
        ElfFile(data)
