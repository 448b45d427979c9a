"""The canaries that stand below a sealed root, known without reading what is sealed again for every trial."""

import contextlib
import functools
from pathlib import Path

from pydantic import ValidationError

from hc_ray.blind.sealing.vault import VERIFIER_FILE, VerifierSpec


def planted_tokens(sealed_root: Path) -> dict[str, str]:
    """Every token planted under a root now, with the public digest of its task; a scanner looks for them in prompts,
    journals and artefacts. A task's sealed settings are read once, and again when they are another file: who seals a
    task anew, or installs it from elsewhere, replaces them whole. What cannot be read has none, and is tried the next
    time."""
    found = {}
    for path in sorted(sealed_root.glob(f"*/{VERIFIER_FILE}")):
        with contextlib.suppress(OSError, ValidationError):
            found[_token(path, _identity(path))] = path.parent.name
    return found


def _identity(path: Path) -> tuple[int, ...]:
    """Of a file that nobody writes into: another in its place differs in one of these, the time of its last change at
    the least, which no unpacking can set."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.cache
def _token(path: Path, identity: tuple[int, ...]) -> str:
    return VerifierSpec.model_validate_json(path.read_bytes()).canary
