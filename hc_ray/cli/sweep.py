"""``sweep``, ``climb`` and ``run``: running trials."""

from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hc_ray.cli.options import (
    ENGINE,
    SWEEP,
    TASKS,
    Address,
    Config,
    DryRun,
    Given,
    Json,
    Set,
    Verbose,
    WaitNodes,
    config_from,
    print_json,
    sets_of_run,
    sweep_store,
    takes,
    words_beside,
)
from hc_ray.domain.errors import ConfigError
from hc_ray.machine.paths import configs_dir

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig


@takes(*SWEEP)
def sweep(
    given: Given,
    config: Annotated[
        str | None, Argument(help="A YAML config file, or the name of a shipped one. Default: demo.")
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="FILE", help="Start from a config written by `export best`.")
    ] = None,
    set_: Set = None,
    resume: Annotated[bool, Option("--resume", help="Continue the sweep in -o OUT: run its missing trials.")] = False,
    dry_run: DryRun = False,
    max_trials: Annotated[int | None, Option("--max-trials", min=1, help="Stop after this many trials.")] = None,
    sleep: Annotated[float, Option("--sleep", min=0, help="Seconds to wait before each trial starts.")] = 0.0,
    address: Address = None,
    wait_nodes: WaitNodes = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int | None:
    """Run agents on a dataset with blind grading: the main command. Flags override the config file."""
    from hc_ray_actors.driver.resumption import stored_config

    def stored(out: str) -> dict[str, Any]:
        return stored_config(out).model_dump(mode="json", exclude_unset=True)

    if from_ is not None and config is not None:
        raise ConfigError(f"--from {from_}: use it or the config file {config}, not both")
    from hc_ray.cli.config_loader import exported_config

    start = exported_config(from_) if from_ is not None else {}
    settings = _settings(config, given, set_, resume=resume, stored=stored, default="demo", base=start.get("settings"))
    if settings.search == "climb":
        if max_trials is not None or sleep:
            raise ConfigError("search: climb: --max-trials and --sleep do not apply to a climb; climb.tokens bounds it")
        return _climb(settings, resume=resume, dry_run=dry_run, verbose=verbose, as_json=as_json, address=address,
                      wait_nodes=wait_nodes)  # fmt: skip
    if settings.climb is not None:
        raise ConfigError("climb: these settings also need `search: climb` (or run hc-ray climb)")
    from hc_ray_actors.driver import sweep as sweeps
    from hc_ray_actors.driver.nodes import joined

    with words_beside(as_json), joined(address, wait_nodes) as cluster:
        tuned_on = start.get("tuned_on", ())
        plan = sweeps.prepare(settings, resume=resume, cluster=cluster, tuned_on=tuned_on)
        from hc_ray.cli.text import plan_data, tell_plan
        from hc_ray.reports import terminal
        from hc_ray.reports.progress import STARTING
        from hc_ray.stores import sweep_directory

        tell_plan(plan, whole=verbose or dry_run)
        if not dry_run:
            missing = len(plan.trials) - plan.done
            total = plan.done + min(missing, max_trials or missing)
            sweep_directory.forgo_pandas()
            with terminal.Progress(
                total, done=plan.done, estimated_seconds=plan.estimated_seconds, verbose=verbose
            ) as progress:
                progress.doing(STARTING)
                ended = sweeps.run(
                    plan, events=progress, max_trials=max_trials, sleep=sleep, address=address, cluster=cluster
                )
    if not dry_run:
        begun = len(progress.state.running)
        return _finish(ended, planned=len(plan.trials), begun=begun, as_json=as_json)
    if as_json:
        print_json(plan_data(plan))
    return None


def _settings(
    config: str | None,
    flags: Given,
    sets: Sequence[str] | None,
    *,
    resume: bool,
    stored: Callable[[str], Mapping[str, Any]],
    default: str,
    base: Mapping[str, Any] | None = None,
) -> "SweepConfig":
    """The settings of the config file, or of an exported one (``base``), overridden by the flags. With neither a file
    nor a dataset, a resumed run uses its ``stored`` settings and a new one the shipped config ``default``, even if the
    current directory has a file of that name."""
    if resume and flags["--out"] is None and config is None:
        raise ConfigError("--resume needs -o OUT, the folder to continue")
    if config is None and flags["--path"] is None and base is None:
        base = stored(flags["--out"]) if resume else None
        config = None if resume else str(configs_dir() / f"{default}.yaml")
    return config_from(config, flags, base=base, sets=sets)


def _finish(ended: Any, *, planned: int, begun: int, as_json: bool) -> int:
    """Print the result of a sweep as tables or as JSON, and return the exit code. ``begun``: trials that started but
    did not finish."""
    from hc_ray.domain.value import counted
    from hc_ray.reports.sweep_page import result_sections
    from hc_ray.reports.terminal import say, tell

    out = quote(ended.out)
    with words_beside(as_json):
        for problem in ended.problems:
            say(f"note: {problem}", style="yellow")
        if not as_json:
            tell(*result_sections(ended.report, out=ended.out))
            say(f"\n{ended.out}  (hc-ray report, hc-ray show {out}/TRIAL, hc-ray ui {out})", style="dim")
        if ended.interrupted or ended.stopped:
            left = f"{planned - ended.done} of {counted(planned, 'trial')} unfinished"
            again = f" ({begun} of them had started and will start over)" if begun else ""
            how = "interrupted" if ended.interrupted else "stopped"
            say(f"{how}: {left}{again}; to continue: hc-ray sweep --resume -o {out}", style="yellow")
    if as_json:
        print_json(ended.model_dump(mode="json"))
    return 130 if ended.interrupted else 3 if ended.unscored or ended.stopped else 0


@takes(*TASKS, "--out", "--sandbox", *ENGINE)
def climb(
    given: Given,
    config: Annotated[str | None, Argument(help="A YAML config file, or the name of a shipped one.")] = None,
    set_: Set = None,
    resume: Annotated[bool, Option("--resume", help="Continue the climb in -o OUT.")] = False,
    address: Address = None,
    wait_nodes: WaitNodes = None,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int | None:
    """Improve the settings of hc step by step. Proposes changes, races them on dev tasks, accepts or reverts them."""
    from hc_ray_actors.jobs.climb import stored_settings

    settings = _settings(config, given, set_, resume=resume, stored=stored_settings, default="climb")
    return _climb(settings, resume=resume, dry_run=dry_run, verbose=verbose, as_json=as_json, address=address,
                  wait_nodes=wait_nodes)  # fmt: skip


def _climb(
    settings: "SweepConfig",
    *,
    resume: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    address: str | None,
    wait_nodes: str | None,
) -> int | None:
    """Run a climb from these settings, reporting as it goes. Returns the exit code."""
    from hc_ray.cli.text import tell_climb_plan
    from hc_ray.domain.value import counted
    from hc_ray.reports.climb_page import climb_sections
    from hc_ray.reports.climb_report import change_of
    from hc_ray.reports.terminal import Progress, say, tell, waiting
    from hc_ray.stores.sweep_directory import forgo_pandas
    from hc_ray_actors.driver.nodes import joined
    from hc_ray_actors.jobs import climb as job

    if resume and settings.out is None:
        raise ConfigError("--resume needs -o OUT, the folder of the climb to continue")

    def report_record(record: Any) -> None:
        proposal, decision = record.proposal, record.decision
        what = f"{proposal.generation}-{proposal.place} {proposal.proposer}"
        what += f": {change_of(proposal.model_dump(mode='json'))}" if proposal.knob else ""
        if decision:
            say(f"{what}: {decision.verdict}, {decision.why}")
        elif verbose or (proposal.answer and proposal.proposer == "rules"):
            say(f"{what} ({proposal.reason})")

    def watch(trials: int, purpose: str) -> Progress:
        say(f"{purpose} ({counted(trials, 'trial')} to run)")
        return Progress(trials, verbose=verbose)

    with words_beside(as_json), joined(address, wait_nodes) as cluster:
        plan = job.prepare(settings, resume=resume, cluster=cluster)
        tell_climb_plan(plan, whole=dry_run or verbose)
        forgo_pandas()
        try:
            summary = None if dry_run else job.run(
                plan, watch=watch, waiting=waiting, tell=report_record,
                note=lambda text: say(f"note: {text}", style="yellow"), cluster=cluster, address=address,
            )  # fmt: skip
        except KeyboardInterrupt:
            say(f"interrupted; to continue: hc-ray climb --resume -o {quote(plan.out)}", style="yellow")
            return 130
    if as_json:
        tasks = [task.name for task in plan.sweep.taken]
        planned = {"out": plan.out, "terms": plan.terms, "says": plan.says, "tasks": tasks, "start": plan.start.solver}
        print_json(planned if summary is None else summary)
    elif summary is not None:
        tell(*climb_sections(summary))
        say(f"\n{plan.out}  (hc-ray report {plan.out}, hc-ray ui {plan.out})")
    return None


@takes("--out", "--sandbox", *ENGINE, "--budget-tokens", "--network", "--grading")
def run(
    given: Given,
    path: Annotated[str, Option("--path", "-p", help="The folder of one task.")],
    agent: Annotated[str, Option("--agent", "-a", help="Agent: raw, best_of_n, hc, oracle or nop.")] = "hc",
    seed: Annotated[int, Option("--seed", min=0, help="The trial's seed.")] = 0,
    config: Config = None,
    set_: Set = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Run one trial of one task. With --json, print its result.json."""
    from hc_ray.reports import terminal

    settings = config_from(config, {"--agent": [agent], **given}, sets=sets_of_run(set_ or ()))
    from hc_ray_actors.jobs.single import run_trial

    with words_beside(as_json), terminal.Progress(1, verbose=verbose) as progress:
        result = run_trial(settings, path, settings.agents[0], seed=seed, events=progress)
    if as_json:
        print_json(result)
    else:
        from hc_ray.cli.text import tell_trial
        from hc_ray.reports.report import read_sweep

        tell_trial(result, read_sweep(sweep_store(result["out"])))
    return 3 if (result.get("verifier_result") or {}).get("rewards") is None else 0
