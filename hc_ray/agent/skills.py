"""Skills: short know-how for a trade, never for a task. A skill is a folder with ``SKILL.md``: front matter (name,
description, triggers, version, scripts), then the text; further files beside it are read, or run, on demand.

They are disclosed step by step: what triggers says whose text goes into a prompt; a candidate that works with tools
also sees the scripts of those and the names of the others, and finds all of them below ``PLACE``. All of it keeps to
one token budget, however many are installed. Learned ones (``hc-ray skills learn``) lie below the data root and replace
shipped ones of their name."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from hc_ray.agent.deliverable import Deliverable
from hc_ray.agent.prompt_formats import as_comments
from hc_ray.agent.prompt_templates import prompts_digest
from hc_ray.domain.config import TESTERS, RoleName, SolverConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import data_root
from hc_ray.spec.spec import Spec

SHIPPED = Path(__file__).parent / "shipped_skills"
PLACE = "/tmp/skills"
"""Where a sandbox has them: below /tmp, so that no submission holds them."""
FILE = "SKILL.md"
_FILE = "file:"
_LARGEST = 1 << 16
_PARTS = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)


class Skill(Value):
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{1,40}$")
    description: str = Field(min_length=1, max_length=200)
    triggers: tuple[str, ...] = Field(min_length=1)
    """Regular expressions for the instruction, or ``file:SUFFIX`` for the suffix of a file that it names."""
    version: int = Field(1, ge=1)
    scripts: Mapping[str, str] = {}
    """Path below the folder → how it is called and what it does, for a candidate that can run it."""
    provenance: tuple[Mapping[str, Any], ...] = ()
    """Of a learned one: for each version that was learned, from what."""
    body: str
    folder: str = Field("", exclude=True)

    @property
    def text(self) -> str:
        """The whole of its ``SKILL.md``."""
        front = self.model_dump(mode="json", exclude={"body"}, exclude_defaults=True) | {"version": self.version}
        return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110)}---\n{self.body.strip()}\n"

    def files(self) -> dict[str, bytes]:
        """Everything in its folder, by path below the folder."""
        folder = Path(self.folder)
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.stat().st_size <= _LARGEST}


def learned_root() -> Path:
    """Where learned skills are kept on this machine."""
    return data_root() / "learned"


def read_skill(folder: Path) -> Skill:
    """The skill of a folder. Raises ``ConfigError`` for one that cannot be used, with the reason."""
    try:
        parts = _PARTS.match((folder / FILE).read_text(encoding="utf-8"))
        if parts is None:
            raise ValueError("it must begin with front matter between two --- lines")
        skill = Skill(**yaml.safe_load(parts[1]), body=parts[2].strip(), folder=str(folder))
        for trigger in skill.triggers:
            re.compile(trigger)
        if missing := sorted(set(skill.scripts) - set(skill.files())):
            raise ValueError(f"script {missing[0]} does not exist")
    except (OSError, ValueError, TypeError, yaml.YAMLError, ValidationError, re.error) as error:
        raise ConfigError(f"{folder / FILE}: not a skill: {str(error).splitlines()[0]}") from None
    return skill


def installed(roots: Sequence[Path] | None = None) -> tuple[Skill, ...]:
    """Every skill, by name; a later root's replace those of their name in an earlier one."""
    found: dict[str, Skill] = {}
    for root in (SHIPPED, learned_root()) if roots is None else roots:
        for path in sorted(root.glob(f"*/{FILE}")):
            skill = read_skill(path.parent)
            found[skill.name] = skill
    return tuple(found[name] for name in sorted(found))


def triggered(skills: Sequence[Skill], spec: Spec) -> tuple[Skill, ...]:
    """The skills that an instruction calls for, those with the most triggers first."""
    suffixes = {_FILE + file.path.rpartition(".")[2].lower() for file in spec.files}

    def called(skill: Skill) -> int:
        return sum(
            one in suffixes if one.startswith(_FILE) else re.search(one, spec.instruction, re.IGNORECASE) is not None
            for one in skill.triggers
        )

    counted = [(called(skill), skill) for skill in skills]
    return tuple(skill for count, skill in sorted(counted, key=lambda one: (-one[0], one[1].name)) if count)


async def know_how(
    skills: Sequence[Skill],
    spec: Spec,
    deliverable: Deliverable,
    *,
    count: Callable[[str], Awaitable[int]],
    budget: int,
    listing: bool = False,
) -> str:
    """What a prompt says of the skills, at most ``budget`` tokens: the texts of those that are called for, whole or not
    at all. Before code a form may tell it as comments: their marks are counted. With ``listing``, for candidates that
    work with tools and are told no comments, also where the others are, as many as fit."""
    called = triggered(skills, spec)
    told: list[str] = []

    async def cost(texts: Sequence[str]) -> int:
        text = "\n\n".join(texts)
        plain = listing or deliverable.kind == "file"
        return await count(text if plain else as_comments(f"\n{text}", deliverable))

    for skill in called:
        if await cost([*told, skill.body]) <= budget:
            told.append(skill.body)
    if listing:
        heading = f"More know-how is in {PLACE}/NAME/{FILE}, scripts beside it:"
        shown = [one for one in called if one.body in told]
        lines = [f"{one.name}/{path} {says}" for one in shown for path, says in one.scripts.items()]
        others = (*called, *(one for one in skills if one not in called))
        lines += [f"{one.name}: {one.description}" for one in others if one not in shown]
        fitting = await _fitting(lambda some: cost([*told, "\n".join((heading, *some))]), lines, budget)
        told += ["\n".join((heading, *lines[:fitting]))] if fitting else []
    return "\n\n".join(told)


async def _fitting(cost: Callable[[Sequence[str]], Awaitable[int]], lines: Sequence[str], budget: int) -> int:
    """How many of the lines fit."""
    least, most = 0, len(lines)
    while least < most:
        middle = (least + most + 1) // 2
        if await cost(lines[:middle]) <= budget:
            least = middle
        else:
            most = middle - 1
    return least


async def put_skills(sandbox: Sandbox, skills: Sequence[Skill]) -> None:
    """Lay every file of every skill where a sandbox has it; what begins as a script may be run."""
    files = {f"{PLACE}/{one.name}/{path}": data for one in skills for path, data in one.files().items()}
    scripts = {path: data for path, data in files.items() if data.startswith(b"#!")}
    await sandbox.put({path: data for path, data in files.items() if path not in scripts})
    await sandbox.put(scripts, mode=0o755)


def prompts_of(config: SolverConfig, role: RoleName = "solver") -> str:
    """Digest of all that shapes a role's prompts besides the config: its templates, and of the solver, where they are
    used, skills, with what is read or run of them on demand."""
    templates = prompts_digest("tester" if role in TESTERS else role)
    if role != "solver" or not config.use_skills:
        return templates
    held = [{path: hashlib.sha256(data).hexdigest() for path, data in one.files().items()} for one in installed()]
    return digest_of([templates, held])
