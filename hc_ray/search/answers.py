"""From an answer of the model to a candidate; and when two are the same one: by the normal form of their files."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from hc_ray.domain.candidate import Candidate
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.value import digest_of
from hc_ray.search.schedule import Slot
from hc_ray.spec.source import parsed


def candidate(slot: Slot, made: Mapping[str, str] | Malformed, pool: Sequence[Candidate], **spent: Any) -> Candidate:
    """The candidate of a slot, marked where the pool has the same files. ``spent``: its tokens, turns and seconds."""
    files, malformed = ({}, made.reason) if isinstance(made, Malformed) else (dict(made), None)
    new = Candidate(id=slot.id, **slot.model_dump(exclude={"told"}), files=files, malformed=malformed, **spent)
    if not files:
        return new
    digest = files_digest(new.files)
    original = next((one for one in pool if one.digest == digest), None)
    twin = (original.duplicate_of or original.id) if original else None
    return new.model_copy(update={"digest": digest, "duplicate_of": twin})


def files_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over the normal form of the files: equal digests are the same candidate."""
    return digest_of({path: normal_form(path, text) for path, text in files.items()})


def normal_form(path: str, text: str) -> str:
    """A text that equal candidates share. Python: without layout, comments and documentation. Anything else: without
    trailing space."""
    plain = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return (_python(text) if path.endswith(".py") else None) or plain


def _python(text: str) -> str | None:
    if (tree := parsed(text)) is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = node.body[0] if node.body else None
            said = first.value if isinstance(first, ast.Expr) else None
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                node.body = node.body[1:] or [ast.Pass()]
    try:
        return ast.dump(tree)
    except RecursionError:
        return None
