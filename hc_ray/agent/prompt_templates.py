"""The prompt templates of ``prompts/`` as one versioned whole."""

import hashlib
from functools import cache
from pathlib import Path
from string import Template

from hc_ray.domain.config import RoleName

PROMPTS = Path(__file__).parent / "prompts"


@cache
def template(name: str) -> str:
    """The text of ``prompts/<name>.txt``, without the final newline."""
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def filled(name: str, **values: object) -> str:
    """A template with its placeholders filled in."""
    return Template(template(name)).substitute(values)


def fenced(text: str, language: str = "") -> str:
    """A text as a fenced block, with a fence longer than any in the text."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}{language}\n{text if text.endswith(chr(10)) else text + chr(10)}{mark}"


def role_of(name: str) -> RoleName:
    """The role of a template; the tester's start with ``test``."""
    alone: dict[str, RoleName] = {"decompose": "decomposer", "meta": "meta"}
    return "tester" if name.startswith("test") else alone.get(name, "solver")


@cache
def prompts_digest(role: RoleName) -> str:
    """SHA-256 over all templates of a role, part of the keys of trials and suites."""
    digest = hashlib.sha256()
    for path in (path for path in sorted(PROMPTS.glob("*.txt")) if role_of(path.stem) == role):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
