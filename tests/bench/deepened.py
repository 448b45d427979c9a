"""The demo's model with more layers, which add nothing: it answers as before and computes as a larger model does.

What a layer adds to the residual stream goes through the last matrices of its attention and of its feed-forward part: a
copy of a layer in which these are 0 hands on what it was given. File format: version 3 of GGUF (ggml/docs/gguf.md)."""

import struct
from pathlib import Path
from typing import BinaryIO

from hc_ray.engines.requantise import Matrix, aligned, pad, read_head, write_info

_COUNT = b"llama.block_count"
_ADDING = (b"attn_output.weight", b"ffn_down.weight")


def deepen(source: Path, target: Path, times: int) -> None:
    """Write the model of ``source`` with ``times`` as many layers."""
    with source.open("rb") as old, target.open("wb") as new:
        metadata, alignment, matrices = read_head(old)
        at = metadata.index(_COUNT) + len(_COUNT) + 4
        (layers,) = struct.unpack_from("<I", metadata, at)
        metadata = metadata[:at] + struct.pack("<I", times * layers) + metadata[at + 4 :]
        start = aligned(old.tell(), alignment)
        ends = sorted({one.offset for one in matrices} | {source.stat().st_size - start})
        length = {begin: ends[index + 1] - begin for index, begin in enumerate(ends[:-1])}
        wanted = [(one, False) for one in matrices]
        for layer in range(layers, times * layers):
            model, name = b"blk.%d." % (layer % layers), b"blk.%d." % layer
            copied = [one for one in matrices if one.name.startswith(model)]
            wanted += [(one._replace(name=one.name.replace(model, name)), one.name.endswith(_ADDING)) for one in copied]
        # The numbers of matrices and of pairs stand after the magic and the version.
        new.write(metadata[:8] + struct.pack("<Q", len(wanted)) + metadata[16:])
        offset = 0
        for one, _ in wanted:
            write_info(new, one._replace(offset=offset))
            offset = aligned(offset + length[one.offset], alignment)
        pad(new, alignment)
        for one, nothing in wanted:
            _copy(old, new, one, start, length[one.offset], nothing=nothing)
            pad(new, alignment)


def _copy(old: BinaryIO, new: BinaryIO, one: Matrix, start: int, length: int, *, nothing: bool) -> None:
    old.seek(start + one.offset)
    new.write(bytes(length) if nothing else old.read(length))
