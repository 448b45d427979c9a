"""``skills list|learn|export``: general know-how that prompts may include, and hc-ray's roles as skills of Claude."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hc_ray.cli.options import Json, answer
from hc_ray.reports.page import Section


def export(
    claude: Annotated[Path, Option("--claude", metavar="DIR", help="Project whose .claude/skills they go to.")],
    force: Annotated[bool, Option("--force", help="Replace files that differ.")] = False,
    as_json: Json = False,
) -> None:
    """Write hc-ray's roles as Agent Skills. They are testgen, decomposer, evaluator and meta-reasoner."""
    from hc_ray.cli import claude_skills

    written = claude_skills.export(claude, force=force)
    told = f"{len(written)} files written to {claude / '.claude' / 'skills'}"
    answer(as_json, {"written": [str(path) for path in written]}, told)


def list_skills(as_json: Json = False) -> None:
    """List the installed skills. Each is either shipped or learned on this machine."""
    from hc_ray.agent.skills import SHIPPED, installed

    found = [
        {"name": one.name, "version": one.version, "description": one.description, "triggers": list(one.triggers),
         "learned": not one.folder.startswith(str(SHIPPED))}
        for one in installed()
    ]  # fmt: skip
    rows = [
        (one["name"], one["version"], "learned" if one["learned"] else "shipped", one["description"]) for one in found
    ]
    use = "To add them to prompts: --set solver.use_skills=true"
    answer(as_json, {"skills": found}, Section("", ("skill", "version", "origin", "description"), rows, after=[use]))


def learn(
    out: Annotated[str, Argument(help="A finished sweep on dev tasks.")],
    to: Annotated[str | None, Option("--to", help="Folder for learned skills. Default: this user's own.")] = None,
    as_json: Json = False,
) -> None:
    """Learn skills from kinds of dev tasks that nearly always pass. Existing skills get a new version."""
    from hc_ray.agent.skills import learned_root
    from hc_ray_actors.jobs.learning import learn as learn_from

    taught = learn_from(out, Path(to) if to else learned_root())
    rows = [
        (one.kind, one.trials, one.tasks, f"{one.rate:.0%}",
         f"{one.skill.name} {one.skill.version}" if one.skill else one.why)
        for one in taught
    ]  # fmt: skip
    told = f"{sum(one.skill is not None for one in taught)} skills written to {to or learned_root()}"
    answer(as_json, {"kinds": taught}, Section("", ("kind", "trials", "tasks", "passed", "skill"), rows), told)
