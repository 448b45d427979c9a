from pathlib import Path

import pytest

from hc_ray.sandboxes.inside.grading.libraries import read_elf
from hc_ray.sandboxes.runner_build import base_python
from hc_ray.sandboxes.runner_elf import ElfFile


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
