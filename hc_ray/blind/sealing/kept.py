"""Files that are written whole or not at all, and values in them."""

import os
import secrets
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from hc_ray.domain.value import Value

Kept = TypeVar("Kept", bound=Value)


def keep(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, for its owner alone unless ``mode`` says otherwise."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    new.replace(path)


def keep_value(path: Path, value: Value) -> None:
    """Keep a value for its owner alone."""
    keep(path, value.model_dump_json().encode())


def read_kept(path: Path, kind: type[Kept]) -> Kept | None:
    """A value that was kept; None where there is none that can be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
