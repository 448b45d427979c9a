"""Skills: short know-how for a trade, never for a task. A skill is a folder with ``SKILL.md``: front matter (name,
description, triggers, version), then the text.

What triggers says whose text goes into a prompt; all of it keeps to one token budget, however many are installed.
Learned ones (``hc-ray skills learn``) lie below the data root and replace shipped ones of their name."""

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
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import data_root
from hc_ray.spec.spec import Spec

SHIPPED = Path(__file__).parent / "shipped_skills"
FILE = "SKILL.md"
_FILE = "file:"
_PARTS = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)


class Skill(Value):
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{1,40}$")
    description: str = Field(min_length=1, max_length=200)
    triggers: tuple[str, ...] = Field(min_length=1)
    """Regular expressions for the instruction, or ``file:SUFFIX`` for the suffix of a file that it names."""
    version: int = Field(1, ge=1)
    provenance: tuple[Mapping[str, Any], ...] = ()
    """Of a learned one: for each version that was learned, from what."""
    body: str
    folder: str = Field("", exclude=True)

    @property
    def text(self) -> str:
        """The whole of its ``SKILL.md``."""
        front = self.model_dump(mode="json", exclude={"body"}, exclude_defaults=True) | {"version": self.version}
        return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110)}---\n{self.body.strip()}\n"


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
    plain: bool = False,
) -> str:
    """What a prompt says of the skills, at most ``budget`` tokens: the texts of those that are called for, whole or not
    at all. Before code a form may tell it as comments, unless it is ``plain``: their marks are counted."""
    told: list[str] = []

    async def cost(texts: Sequence[str]) -> int:
        text = "\n\n".join(texts)
        return await count(text if plain or deliverable.kind == "file" else as_comments(f"\n{text}", deliverable))

    for skill in triggered(skills, spec):
        if await cost([*told, skill.body]) <= budget:
            told.append(skill.body)
    return "\n\n".join(told)


def prompts_of(config: SolverConfig, role: RoleName = "solver") -> str:
    """Digest of all that shapes a role's prompts besides the config: its templates, and of the solver, where they are
    used, skills."""
    templates = prompts_digest("tester" if role in TESTERS else role)
    if role != "solver" or not config.use_skills:
        return templates
    return digest_of([templates, [one.text for one in installed()]])
