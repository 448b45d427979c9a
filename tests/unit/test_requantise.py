import pytest

from hc_ray.domain.errors import ModelError
from hc_ray.engines.requantise import requantise


@pytest.mark.parametrize("content", [b"GGUF", b"GGUF" + bytes(40), b"hello" * 9])
def test_what_is_no_gguf_is_told_in_one_line(tmp_path, content):
    (tmp_path / "old.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"old\.gguf: not a readable GGUF file"):
        requantise(tmp_path / "old.gguf", tmp_path / "new.gguf")
