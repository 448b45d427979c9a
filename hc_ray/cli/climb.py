"""``climb``: from one solver config to the next."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hc_ray.cli.options import (
    ENGINE,
    TASKS,
    Address,
    DryRun,
    Given,
    Json,
    Set,
    Verbose,
    WaitNodes,
    config_from,
    people,
    print_json,
    takes,
)
from hc_ray.domain.errors import ConfigError

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig


@takes(*TASKS, "--out", "--sandbox", *ENGINE)
def climb(
    given: Given,
    config: Annotated[str | None, typer.Argument(help="A YAML config file, or the name of a shipped one.")] = None,
    set_: Set = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the climb in -o OUT.")] = False,
    address: Address = None,
    wait_nodes: WaitNodes = None,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Improve the settings of hc step by step: changes are proposed, raced on dev tasks and accepted or reverted."""
    from hc_ray_actors.jobs.climb import stored_settings

    out, path = given["--out"], given["--path"]
    base = stored_settings(str(out)) if resume and out and config is None and path is None else None
    if config is None and path is None and base is None:
        config = "climb"
    settings = config_from(config, given, base=base, sets=set_ or ())
    return climb_from(
        settings, resume=resume, dry_run=dry_run, verbose=verbose, as_json=as_json, address=address,
        wait_nodes=wait_nodes,
    )  # fmt: skip


def climb_from(
    settings: "SweepConfig",
    *,
    resume: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    address: str | None = None,
    wait_nodes: str | None = None,
) -> int:
    """A climb that begins at some settings, told as it goes on. Returns the exit code."""
    from hc_ray.reports.climb_page import tell_climb
    from hc_ray.reports.climb_report import change_of
    from hc_ray.reports.report import stored_json
    from hc_ray.reports.terminal import Progress, heading, say
    from hc_ray.stores.sweep_directory import SweepStore, forgo_pandas
    from hc_ray_actors.driver.nodes import joined
    from hc_ray_actors.jobs import climb as job

    if resume and settings.out is None:
        raise ConfigError("--resume needs -o OUT, the folder of the climb to continue")
    with joined(address, wait_nodes) as cluster:
        plan = job.prepare(settings, resume=resume, address=address, cluster=cluster)
        stream = people(as_json)
        heading(f"Climb: {plan.sweep.config.dataset} → {plan.out}", stream=stream)
        for line in (*plan.says, f"sandbox {plan.sweep.sandbox}: {plan.sweep.sandbox_why}", *plan.sweep.notes):
            say(line, stream=stream)
        if dry_run:
            if as_json:
                print_json({"schema_version": 1, "out": plan.out, "terms": plan.terms, "says": plan.says,
                            "tasks": [task.name for task in plan.sweep.taken], "start": plan.start.solver})  # fmt: skip
            return 0

        def tell(record: Any) -> None:
            proposal, decision = record.proposal, record.decision
            what = f"{proposal.generation}-{proposal.place} {proposal.proposer}"
            what += f": {change_of(proposal.model_dump(mode='json'))}" if proposal.knob else ""
            if decision:
                say(f"{what}: {decision.verdict}, {decision.why}", stream=stream)
            elif verbose or (proposal.answer and proposal.proposer == "rules"):
                say(f"{what} ({proposal.reason})", stream=stream)

        forgo_pandas()
        try:
            summary = job.run(
                plan, watch=lambda trials: Progress(trials, verbose=verbose, stream=stream), tell=tell,
                note=lambda text: say(f"note: {text}", stream=stream, style="yellow"),
                cluster=cluster, address=address,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(f"interrupted; to continue: hc-ray climb --resume -o {plan.out}", stream=stream, style="yellow")
            return 130
    if as_json:
        print_json(summary)
    else:
        tell_climb(stored_json(SweepStore(plan.out), "report.json"))
        say(f"\n{plan.out}  (hc-ray report {plan.out}, hc-ray ui {plan.out})")
    return 0
