"""The prompt templates of ``prompts/`` as one versioned whole."""

import hashlib
from functools import cache
from pathlib import Path
from string import Template

from hc_ray.domain.config import RoleName

PROMPTS = Path(__file__).parent / "prompts"


@cache
def template(name: str) -> str:
    """The text of ``prompts/<name>.txt``, without its last line break."""
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def filled(name: str, **values: object) -> str:
    """A template with its places filled."""
    return Template(template(name)).substitute(values)


def fenced(text: str, language: str = "") -> str:
    """A text as a block of a prompt, in a fence that is longer than any within it."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}{language}\n{text if text.endswith(chr(10)) else text + chr(10)}{mark}"


def role_of(name: str) -> RoleName:
    """Whose template it is: a tester's begin with ``test``."""
    alone: dict[str, RoleName] = {"decompose": "decomposer", "meta": "meta"}
    return "tester" if name.startswith("test") else alone.get(name, "solver")


@cache
def prompts_digest(role: RoleName) -> str:
    """SHA-256 over every template of a role: part of the keys of trials and suites."""
    digest = hashlib.sha256()
    for path in (path for path in sorted(PROMPTS.glob("*.txt")) if role_of(path.stem) == role):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
