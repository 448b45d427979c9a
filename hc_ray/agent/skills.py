"""Skills: short general know-how, never for a particular task. A skill is a folder with ``SKILL.md``: front matter
(name, description, triggers, version), then the text.

Triggers decide which texts go into a prompt, together within one token budget, however many are installed. Learned
skills (``hc-ray skills learn``) are in the data folder and replace shipped ones of the same name."""

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
    """For a learned skill: the source of each version."""
    body: str
    folder: str = Field("", exclude=True)

    @property
    def text(self) -> str:
        """The content of its ``SKILL.md``."""
        front = self.model_dump(mode="json", exclude={"body"}, exclude_defaults=True) | {"version": self.version}
        return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110)}---\n{self.body.strip()}\n"


def learned_root() -> Path:
    """This machine's folder of learned skills."""
    return data_root() / "learned"


def read_skill(folder: Path) -> Skill:
    """Read a skill. Raises ``ConfigError`` with the reason if it is invalid."""
    try:
        parts = _PARTS.match((folder / FILE).read_text(encoding="utf-8"))
        if parts is None:
            raise ValueError("it must start with front matter between two --- lines")
        skill = Skill(**yaml.safe_load(parts[1]), body=parts[2].strip(), folder=str(folder))
        for trigger in skill.triggers:
            re.compile(trigger)
    except (OSError, ValueError, TypeError, yaml.YAMLError, ValidationError, re.error) as error:
        raise ConfigError(f"{folder / FILE}: not a skill: {str(error).splitlines()[0]}") from None
    return skill


def installed(roots: Sequence[Path] | None = None) -> tuple[Skill, ...]:
    """All skills by name; those in later roots replace those of the same name in earlier ones."""
    found: dict[str, Skill] = {}
    for root in (SHIPPED, learned_root()) if roots is None else roots:
        for path in sorted(root.glob(f"*/{FILE}")):
            skill = read_skill(path.parent)
            found[skill.name] = skill
    return tuple(found[name] for name in sorted(found))


def triggered(skills: Sequence[Skill], spec: Spec) -> tuple[Skill, ...]:
    """The skills that an instruction triggers, those with the most matching triggers first."""
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
    """The prompt text of the triggered skills, at most ``budget`` tokens; each is included whole or not at all. Unless
    ``plain``, a completion prompt may show it as comments, whose marks count."""
    told: list[str] = []

    async def cost(texts: Sequence[str]) -> int:
        text = "\n\n".join(texts)
        return await count(text if plain or deliverable.kind == "file" else as_comments(f"\n{text}", deliverable))

    for skill in triggered(skills, spec):
        if await cost([*told, skill.body]) <= budget:
            told.append(skill.body)
    return "\n\n".join(told)


def prompts_of(config: SolverConfig, role: RoleName = "solver") -> str:
    """Digest of everything that shapes a role's prompts besides the config: its templates, and for a solver that uses
    them, the skills."""
    templates = prompts_digest("tester" if role in TESTERS else role)
    if role != "solver" or not config.use_skills:
        return templates
    return digest_of([templates, [one.text for one in installed()]])
