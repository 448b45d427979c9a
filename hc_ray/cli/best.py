"""``best``, ``stats``, ``export best``: rank the configs of one or several sweeps, and export the best one."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hc_ray.cli.options import Json, answer, print_json, sweep_store
from hc_ray.domain.errors import OutputError
from hc_ray.reports.page import Section, number

Outs = Annotated[list[str], Argument(metavar="OUT...", help="Sweep directories.")]


def best(outs: Outs, as_json: Json = False) -> None:
    """Rank the configs of sweeps by their results on dev. By pass rate, then by tokens; for sweeps of one dataset."""
    from hc_ray.reports import best as configs

    found = configs.best({out: sweep_store(out) for out in outs})
    if as_json:
        return print_json(found)
    from hc_ray.reports.sweep_page import agent_sections
    from hc_ray.reports.terminal import say, tell

    tell(*agent_sections(found["configs"]))
    if not found["same_tasks"]:
        say("These configs ran on different tasks: do not compare their rates.", style="yellow")
    none = f"none reached {configs.PASSES} passes and a pass rate of {configs.PASS_RATE:.0%}"
    say(f"\nBest overall: {found['best']['label'] if found['best'] else none}")
    say(f"Chosen from {len(found['configs'])} by these same trials: its rate is biased upwards.", style="dim")
    rows = [(one["task"], one["label"], f"{one['passes']} of {one['trials']}") for one in found["per_task"]]
    tell(Section("Best per task, chosen by that task's verdicts: not a result", ("task", "config", "passed"), rows))


def stats(outs: Outs, as_json: Json = False) -> None:
    """Count the trials of one or several sweeps, by agent and config."""
    from hc_ray.reports import best as configs

    found = configs.stats({out: sweep_store(out) for out in outs})
    words = ("sweep", "label", "split")
    columns = [name for one in found["configs"][:1] for name in one if name not in words]
    rows = [[*(one[name] for name in words), *(number(one[name], 0) for name in columns)] for one in found["configs"]]
    sums = [
        f"{out}: {one['trials']} of {one['planned_trials'] or 'an unknown number of'} trials"
        for out, one in found["sweeps"].items()
    ]
    answer(as_json, found, Section("", (*words, *columns), rows, numbers=columns, after=sums))


def export_best(
    outs: Outs, to: Annotated[str, Option("--out", "-o", help="The new file.")] = "best.yaml", as_json: Json = False
) -> None:
    """Export the best config of sweeps of one dataset. `hc-ray sweep --from` starts from that file."""
    import yaml

    from hc_ray.reports.best import exported

    document = exported({out: sweep_store(out) for out in outs})
    try:
        with Path(to).open("x", encoding="utf-8") as file:
            file.write(
                "# For hc-ray sweep --from. Chosen by the trials counted in `found`: their rate is biased upwards.\n"
            )
            yaml.safe_dump(document, file, sort_keys=False, allow_unicode=True)
    except OSError as error:
        raise OutputError(f"{to} cannot be written: {error.strerror}") from None
    written = f"Wrote {document['found']['label']} to {to}. To start from it: hc-ray sweep --from {to}"
    answer(as_json, {"file": to, **document}, written)
