"""Tars as candidates, sandboxes and attackers make them."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any

from hc_ray.domain.candidate import DELETED

Member = tuple[tarfile.TarInfo, bytes]


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", *, mode: int = 0o755, data: bytes = b"", **fields: Any
) -> Member:
    """A member of any kind; ``fields`` are others of ``TarInfo``."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def make_tar(
    files: Mapping[str, str | bytes], *more: Member, deleted: Iterable[str] = (), mode: int = 0o777, form: str = "w"
) -> bytes:
    """Files by their path, open to everybody, and ``more`` members after them; what is ``deleted`` is listed first, as
    in a submission."""
    if removed := list(deleted):
        files = {DELETED: json.dumps(removed), **files}
    contents = {name.lstrip("/"): text.encode() if isinstance(text, str) else text for name, text in files.items()}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=form) as tar:  # type: ignore[call-overload]
        for info, data in (*(member(name, mode=mode, data=data) for name, data in contents.items()), *more):
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
