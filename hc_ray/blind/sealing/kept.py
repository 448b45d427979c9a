"""Atomic writes of files, and values stored in them."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from hc_ray.domain.value import Value
from hc_ray.machine.whole_files import beside, hold

Kept = TypeVar("Kept", bound=Value)


def keep(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file atomically, readable only by its owner unless ``mode`` says otherwise."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with beside(path, content, lasting=False, mode=0o600) as new:
        new.chmod(mode)
        new.replace(path)


def append(path: Path, told: dict[str, Any], mode: int = 0o600) -> int:
    """Append a line to a ledger, synced to disk; returns its number of lines."""
    line = json.dumps({"when": datetime.now(UTC).isoformat(), **told})
    with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode), "a+") as file:
        hold(file.fileno(), path)
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        return sum(1 for _ in file)


def keep_value(path: Path, value: Value) -> None:
    """Store a value, readable only by the owner."""
    keep(path, value.model_dump_json().encode())


def read_kept(path: Path, kind: type[Kept]) -> Kept | None:
    """Load a stored value; None if it is missing or unreadable."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
