"""Weights of Q4_1 kept as Q8_0."""

import struct

import numpy as np
import pytest

from hc_ray.domain.errors import ModelError
from hc_ray.engines.requantise import Q4_1, Q8_0, requantise

TEXT, ARRAY, UINT32, F32 = 8, 9, 4, 0
BLOCK = np.dtype([("scale", "<f2"), ("least", "<f2"), ("nibbles", "u1", 16)])
RESULT = np.dtype([("scale", "<f2"), ("values", "i1", 32)])


def text(words):
    return struct.pack("<Q", len(words)) + words


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def gguf(metadata, tensors, *, alignment):
    """A file of these metadata and tensors (name, shape, type, data)."""
    infos, data = b"", b""
    for name, shape, kind, content in tensors:
        data += bytes(-len(data) % alignment)
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += content
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + b"".join(metadata)
    return head, head + infos + bytes(-len(head + infos) % alignment) + data


def weights_of(blocks):
    nibbles = np.concatenate((blocks["nibbles"] & 15, blocks["nibbles"] >> 4), axis=1)
    return blocks["scale"].astype(float)[:, None] * nibbles + blocks["least"].astype(float)[:, None]


@pytest.fixture
def blocks():
    chance = np.random.default_rng(7)
    made = np.empty(6, BLOCK)
    made["scale"] = chance.uniform(0.001, 0.1, 6)
    made["least"] = chance.uniform(-1, 0.1, 6)
    made["nibbles"] = chance.integers(0, 256, (6, 16))
    made[5] = (0, 0, 0)
    return made


@pytest.mark.parametrize("alignment", [32, 64])
def test_weights_keep_their_values_and_all_else_its_bytes(tmp_path, blocks, alignment):
    names = struct.pack("<IQ", TEXT, 2) + text(b"a") + text("é".encode())
    metadata = [pair(b"general.alignment", UINT32, struct.pack("<I", alignment)), pair(b"names", ARRAY, names),
                pair(b"sizes", ARRAY, struct.pack("<IQ3I", UINT32, 3, 1, 2, 3))]  # fmt: skip
    plain = np.arange(5, dtype="<f4").tobytes()
    tensors = [(b"norm", (5,), F32, plain), (b"matrix", (64, 3), Q4_1, blocks.tobytes()), (b"last", (5,), F32, plain)]
    head, whole = gguf(metadata, tensors, alignment=alignment)
    (tmp_path / "old.gguf").write_bytes(whole)
    requantise(tmp_path / "old.gguf", tmp_path / "new.gguf")
    new = (tmp_path / "new.gguf").read_bytes()
    made = np.frombuffer(new, RESULT, 6, offset=new.index(plain) + alignment * (-(-len(plain) // alignment)))
    values = made["scale"].astype(float)[:, None] * made["values"]
    largest = np.abs(weights_of(blocks)).max(axis=1)
    assert (np.abs(values - weights_of(blocks)).max(axis=1) <= largest / 254 + largest / 1024).all()
    expected = [(name, shape, Q8_0 if kind == Q4_1 else kind, made.tobytes() if kind == Q4_1 else content)
                for name, shape, kind, content in tensors]  # fmt: skip
    assert new.rstrip(b"\0") == gguf(metadata, expected, alignment=alignment)[1].rstrip(b"\0")
    assert new.startswith(head) and len(new) % alignment == 0


@pytest.mark.parametrize("content", [b"GGUF", b"GGUF" + bytes(40), b"hello" * 9])
def test_what_is_no_gguf_is_told_in_one_line(tmp_path, content):
    (tmp_path / "old.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"old\.gguf: not a GGUF file"):
        requantise(tmp_path / "old.gguf", tmp_path / "new.gguf")
