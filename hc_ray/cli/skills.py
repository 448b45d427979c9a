"""``skills list|learn|export``: general know-how that prompts may include, and hc-ray's roles as skills of Claude."""

from pathlib import Path
from typing import Annotated

import typer

from hc_ray.cli.options import Json, print_json

To = Annotated[str | None, typer.Option("--to", help="Folder for learned skills. Default: this user's own.")]


def export(
    claude: Annotated[Path, typer.Option("--claude", metavar="DIR", help="Project whose .claude/skills they go to.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files that differ.")] = False,
    as_json: Json = False,
) -> int:
    """Write hc-ray's roles as Agent Skills: testgen, decomposer, evaluator, meta-reasoner."""
    from hc_ray.cli import claude_skills

    written = claude_skills.export(claude, force=force)
    if as_json:
        print_json({"schema_version": 1, "written": [str(path) for path in written]})
        return 0
    from hc_ray.reports.terminal import say

    say(f"{len(written)} files written to {claude / '.claude' / 'skills'}")
    return 0


def list_skills(as_json: Json = False) -> int:
    """List the installed skills. Each is either shipped or learned on this machine."""
    from hc_ray.agent.skills import SHIPPED, installed

    skills = installed()
    rows = [{"name": one.name, "version": one.version, "description": one.description, "triggers": list(one.triggers),
             "learned": not one.folder.startswith(str(SHIPPED))} for one in skills]  # fmt: skip
    if as_json:
        print_json({"schema_version": 1, "skills": rows})
        return 0
    from hc_ray.reports.terminal import say, table

    table(("skill", "version", "origin", "description"),
          [(one.name, str(one.version), "learned" if row["learned"] else "shipped", one.description)
           for one, row in zip(skills, rows, strict=True)])  # fmt: skip
    say("To add them to prompts: --set solver.use_skills=true", style="dim")
    return 0


def learn(
    out: Annotated[str, typer.Argument(help="A finished sweep on dev tasks.")],
    to: To = None,
    as_json: Json = False,
) -> int:
    """Learn skills from kinds of dev tasks that nearly always pass. Existing skills get a new version."""
    from hc_ray.agent.skills import learned_root
    from hc_ray_actors.jobs.learning import learn as learn_from

    taught = learn_from(out, Path(to) if to else learned_root())
    if as_json:
        print_json({"schema_version": 1, "kinds": [one.model_dump(mode="json") for one in taught]})
        return 0
    from hc_ray.reports.terminal import say, table

    table(("kind", "trials", "tasks", "passed", "skill"),
          [(one.kind, str(one.trials), str(one.tasks), f"{one.rate:.0%}",
            f"{one.skill.name} {one.skill.version}" if one.skill else one.why) for one in taught])  # fmt: skip
    say(f"{sum(one.skill is not None for one in taught)} skills written to {to or learned_root()}")
    return 0
