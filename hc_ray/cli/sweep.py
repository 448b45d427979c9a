"""``sweep`` and ``run``: running trials."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hc_ray.cli.options import (
    ENGINE,
    SWEEP,
    Address,
    Config,
    DryRun,
    Given,
    Json,
    Set,
    Verbose,
    WaitNodes,
    config_from,
    people,
    print_json,
    sets_of_run,
    sweep_store,
    takes,
)
from hc_ray.domain.errors import ConfigError
from hc_ray.machine.paths import configs_dir

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig


@takes(*SWEEP)
def sweep(
    given: Given,
    config: Annotated[
        str | None, typer.Argument(help="A YAML config file, or the name of a shipped one. Default: demo.")
    ] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FILE", help="Start at a config that `export best` wrote.")
    ] = None,
    set_: Set = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the sweep in -o OUT: run only missing trials.")
    ] = False,
    dry_run: DryRun = False,
    max_trials: Annotated[int | None, typer.Option("--max-trials", min=1, help="Stop after this many trials.")] = None,
    sleep: Annotated[float, typer.Option("--sleep", min=0, help="Seconds to wait before each trial starts.")] = 0.0,
    address: Address = None,
    wait_nodes: WaitNodes = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Run agents on a dataset with blind grading: the main command. Flags override the config file."""
    settings = _settings(config, given, start=from_, resume=resume, sets=set_ or ())
    if settings.search == "climb":
        from hc_ray.cli.climb import climb_from

        if max_trials is not None or sleep:
            raise ConfigError("search: climb: a climb takes no --max-trials and no --sleep; climb.tokens bounds it")
        return climb_from(settings, resume=resume, dry_run=dry_run, verbose=verbose, as_json=as_json, address=address,
                          wait_nodes=wait_nodes)  # fmt: skip
    if settings.climb is not None:
        raise ConfigError("climb: settings with terms of a climb need search: climb, too (or run hc-ray climb)")
    from hc_ray_actors.driver import sweep as sweeps
    from hc_ray_actors.driver.nodes import joined

    with joined(address, wait_nodes) as cluster:
        plan = sweeps.prepare(settings, resume=resume, address=address, cluster=cluster)
        from hc_ray.cli.text import plan_data, tell_plan
        from hc_ray.reports import report as reports
        from hc_ray.reports import terminal
        from hc_ray.stores import sweep_directory

        if dry_run and as_json:
            print_json(plan_data(plan))
            return 0
        stream = people(as_json)
        tell_plan(plan, stream, whole=verbose or dry_run)
        if dry_run:
            return 0
        missing = len(plan.trials) - plan.done
        total = plan.done + min(missing, max_trials or missing)
        progress = terminal.Progress(
            total, done=plan.done, estimated_seconds=plan.estimated_seconds, verbose=verbose, stream=stream
        )
        sweep_directory.forgo_pandas()
        with progress:
            progress.starting()
            ended = sweeps.run(
                plan, events=progress, max_trials=max_trials, sleep=sleep, address=address, cluster=cluster
            )
            progress.doing("computing the results")
            summary = reports.summarise(sweep_store(ended.out))
    begun = len(progress.state.running)
    return _finish(ended, summary, planned=len(plan.trials), begun=begun, as_json=as_json)


def _settings(
    config: str | None, flags: Given, *, start: str | None, resume: bool, sets: Sequence[str]
) -> "SweepConfig":
    """The settings of the file, or of an exported one (``start``), under the flags. Bare ``sweep`` is the demo; a
    resume without a file takes its own."""
    out = flags["--out"]
    if start is not None:
        from hc_ray.cli.config_loader import exported_settings

        if config is not None:
            raise ConfigError(f"--from {start}: give it or the config file {config}, not both")
        return config_from(None, flags, base=exported_settings(start), sets=sets)
    if resume and out is None and config is None:
        raise ConfigError("--resume needs -o OUT, the sweep directory to continue")
    if resume and config is None and flags["--path"] is None:
        from hc_ray_actors.driver.resumption import stored_config

        base = stored_config(str(out)).model_dump(mode="json", exclude_unset=True)
        return config_from(None, flags, base=base, sets=sets)
    if config is None and flags["--path"] is None:
        config = str(configs_dir() / "demo.yaml")  # whatever is called demo in the folder that it is started from
    return config_from(config, flags, sets=sets)


def _finish(ended: Any, summary: dict[str, Any], *, planned: int, begun: int, as_json: bool) -> int:
    """The result of a sweep: tables, or the JSON object; ``begun``: trials that had begun and did not end. Returns the
    exit code."""
    from hc_ray.reports.progress import counted
    from hc_ray.reports.sweep_page import tell_result
    from hc_ray.reports.terminal import say

    stream = people(as_json)
    for problem in ended.problems:
        say(f"note: {problem}", stream=stream, style="yellow")
    if as_json:
        print_json({**ended.model_dump(mode="json"), "report": summary})
    else:
        tell_result(summary, stream, out=ended.out)
        say(f"\n{ended.out}  (hc-ray report, hc-ray show {ended.out}/TRIAL, hc-ray ui {ended.out})", style="dim")
    if ended.interrupted:
        left = f"{planned - ended.done} of {counted(planned, 'trial')} unfinished"
        again = f" ({begun} of them had begun and will start again)" if begun else ""
        told = f"interrupted: {left}{again}; to continue: hc-ray sweep --resume -o {ended.out}"
        say(told, stream=stream, style="yellow")
        return 130
    return 3 if ended.unscored or ended.stopped else 0


@takes("--out", "--sandbox", *ENGINE, "--budget-tokens", "--network", "--grading")
def run(
    given: Given,
    path: Annotated[str, typer.Option("--path", "-p", help="The folder of one task.")],
    agent: Annotated[str, typer.Option("--agent", "-a", help="Agent: raw, best_of_n, hc, oracle or nop.")] = "hc",
    seed: Annotated[int, typer.Option("--seed", min=0, help="The trial's seed.")] = 0,
    config: Config = None,
    set_: Set = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> int:
    """Run one trial of one task. With --json, print its result.json."""
    from hc_ray.reports import terminal

    settings = config_from(config, {"--agent": [agent], **given}, sets=sets_of_run(set_ or ()))
    from hc_ray_actors.jobs.single import run_trial

    with terminal.Progress(1, verbose=verbose, stream=people(as_json)) as progress:
        result = run_trial(settings, path, settings.agents[0], seed=seed, events=progress)
    rewards = (result.get("verifier_result") or {}).get("rewards")
    if as_json:
        print_json(result)
    else:
        from hc_ray.cli.text import tell_trial
        from hc_ray.reports.report import read_sweep

        tell_trial(result, read_sweep(sweep_store(result["out"])))
    return 3 if rewards is None else 0
