"""Converts weights to the format that is fastest in the embedded engine.

llama.cpp multiplies Q4_1 blocks one vector at a time, but has matrix products for Q8_0 (figures in docs/results.md).
Q8_0 represents a Q4_1 value to within 1/254 of its block's largest weight, so answers change only by rounding, as they
do with different batches. Formats: ggml's block_q4_1 and block_q8_0, and GGUF version 3 (ggml/docs/gguf.md)."""

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hc_ray.domain.errors import ModelError

Q4_1, Q8_0 = 3, 8
"""Type numbers in a GGUF file."""
_BLOCK = 32
"""Weights per block, which share a scale."""
_FROM = np.dtype([("scale", "<f2"), ("least", "<f2"), ("nibbles", "u1", 16)])
_TO = np.dtype([("scale", "<f2"), ("values", "i1", _BLOCK)])
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Metadata type → bytes of a value; the two missing types are strings and arrays."""
_TEXT, _ARRAY = 8, 9
_ROWS = 1 << 16
"""Blocks to convert at once."""


class _Matrix(NamedTuple):
    """The description of a matrix in a GGUF file."""

    name: bytes
    shape: tuple[int, ...]
    kind: int
    offset: int


def requantise(source: Path, target: Path) -> None:
    """Write the model in ``source`` to ``target`` with its Q4_1 matrices as Q8_0, and everything else copied.
    Deterministic. Raises ``ModelError`` unless the file is GGUF version 3."""
    size = source.stat().st_size
    try:
        with source.open("rb") as old, target.open("wb") as new:
            metadata, alignment, matrices = _read_head(old)
            start = _aligned(old.tell(), alignment)
            ends = sorted({matrix.offset for matrix in matrices} | {size - start})
            lengths = {begin: end - begin for begin, end in itertools.pairwise(ends)}
            new.write(metadata)
            offset = 0
            for matrix in matrices:
                kind, length = matrix.kind, lengths[matrix.offset]
                if kind == Q4_1:
                    kind, length = Q8_0, int(np.prod(matrix.shape)) // _BLOCK * _TO.itemsize
                _write_info(new, matrix._replace(kind=kind, offset=offset))
                offset = _aligned(offset + length, alignment)
            _pad(new, alignment)
            for matrix in matrices:
                old.seek(start + matrix.offset)
                if matrix.kind == Q4_1:
                    for part in _converted(old, int(np.prod(matrix.shape)) // _BLOCK):
                        new.write(part)
                else:
                    new.write(old.read(lengths[matrix.offset]))
                _pad(new, alignment)
    except (struct.error, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise ModelError(f"{source}: not a readable GGUF file: {error}") from None


def q8_0_of(blocks: NDArray[np.void]) -> NDArray[np.void]:
    """Convert Q4_1 blocks (arrays of ``_FROM``), in which each weight is scale × nibble + minimum, to Q8_0."""
    low, high = blocks["nibbles"] & 15, blocks["nibbles"] >> 4
    scale, least = blocks["scale"].astype(np.float32), blocks["least"].astype(np.float32)
    weights = scale[:, None] * np.concatenate((low, high), axis=1).astype(np.float32) + least[:, None]
    step = np.abs(weights).max(axis=1) / np.float32(127)
    inverse = np.divide(np.float32(1), step, out=np.zeros_like(step), where=step > 0)
    scaled = weights * inverse[:, None]
    made = np.empty(len(blocks), _TO)
    made["scale"] = step.astype(np.float16)
    made["values"] = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return made


def _converted(stream: BinaryIO, blocks: int) -> Iterator[bytes]:
    while blocks:
        count = min(blocks, _ROWS)
        blocks -= count
        yield q8_0_of(np.frombuffer(stream.read(count * _FROM.itemsize), _FROM, count)).tobytes()


def _read_head(stream: BinaryIO) -> tuple[bytes, int, list[_Matrix]]:
    """The raw bytes before the descriptions of the matrices, the data's alignment, and the descriptions."""
    magic, version, count, pairs = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version != 3:
        raise ValueError("it does not start with GGUF version 3")
    alignment = 32
    for _ in range(pairs):
        key, (kind,) = _read_text(stream), struct.unpack("<I", stream.read(4))
        value = _read_value(stream, kind)
        if key == b"general.alignment":
            alignment = int.from_bytes(value, "little")
    end = stream.tell()
    matrices = [_read_info(stream) for _ in range(count)]
    after = stream.tell()
    stream.seek(0)
    metadata = stream.read(end)
    stream.seek(after)
    return metadata, alignment, matrices


def _read_value(stream: BinaryIO, kind: int) -> bytes:
    """Read a metadata value; returns its bytes, without a string's length, and nothing for an array of strings."""
    if kind == _TEXT:
        return _read_text(stream)
    if kind != _ARRAY:
        return stream.read(_FIXED[kind])
    inner, count = struct.unpack("<IQ", stream.read(12))
    if inner in _FIXED:
        return stream.read(_FIXED[inner] * count)
    for _ in range(count):
        _read_value(stream, inner)
    return b""


def _read_text(stream: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", stream.read(8))
    return stream.read(length)


def _read_info(stream: BinaryIO) -> _Matrix:
    name, (dimensions,) = _read_text(stream), struct.unpack("<I", stream.read(4))
    shape = struct.unpack(f"<{dimensions}Q", stream.read(8 * dimensions))
    kind, offset = struct.unpack("<IQ", stream.read(12))
    return _Matrix(name, shape, kind, offset)


def _write_info(stream: BinaryIO, matrix: _Matrix) -> None:
    shape = struct.pack(f"<I{len(matrix.shape)}Q", len(matrix.shape), *matrix.shape)
    stream.write(struct.pack("<Q", len(matrix.name)) + matrix.name + shape)
    stream.write(struct.pack("<IQ", matrix.kind, matrix.offset))


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _pad(stream: BinaryIO, alignment: int) -> None:
    stream.write(bytes(_aligned(stream.tell(), alignment) - stream.tell()))
