"""``report``, ``status``, ``export harbor``: the results of a sweep, finished or not."""

from typing import Annotated, Any

from typer import Argument, Option

from hc_ray.cli.options import Json, Out, answer, print_json, sweep_store
from hc_ray.domain.errors import ConfigError, OutputError


def report(
    out: Annotated[
        list[str],
        Argument(metavar="OUT...", help="A sweep directory, several of the same dataset, or the folder of a climb."),
    ],
    replay: Annotated[
        str | None,
        Option(
            "--replay",
            metavar="SELECTOR",
            help="Replay the stored candidates at equal tokens with this selector: max_pass, codet, mbr, posterior, "
            "your own as module:function, or all. Asks no model.",
        ),
    ] = None,
    write: Annotated[
        str | None,
        Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for report.json and report.html. Default: the sweep directory; of several, none.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the report of a sweep, of several, or of a climb. Also writes report.json and report.html."""
    if replay is not None:
        if write:
            raise ConfigError("--replay writes no report: omit -o, or use --json for its figures")
        return _replay(out, replay, as_json=as_json)
    from hc_ray.reports import report as reports
    from hc_ray.reports.audit_section import AUDIT_FILE
    from hc_ray.reports.climb_page import climb_html, climb_sections
    from hc_ray.reports.climb_report import is_climb, summarise_climb
    from hc_ray.reports.replay.figures import replay as replayed
    from hc_ray.reports.sweep_page import report_sections
    from hc_ray.reports.terminal import say, tell
    from hc_ray.stores.sweep_directory import SweepStore

    climbs = [name for name in out if is_climb(SweepStore(name))]
    if climbs and len(out) > 1:
        raise ConfigError(f"{climbs[0]} is a climb and has its own report; name it alone")
    stores = {name: sweep_store(name) for name in out if name not in climbs}
    if climbs:
        summary = summarise_climb(SweepStore(out[0]), lambda folder: SweepStore(f"{out[0]}/{folder}"))
    elif len(out) == 1:
        store = stores[out[0]]
        # Without an audit, no candidate is graded and there is nothing to replay.
        summary = reports.summarise(store) | {"replay": replayed(store, None) if store.exists(AUDIT_FILE) else None}
    else:
        summary = reports.summarise_several(stores)
    write = write or (out[0] if len(out) == 1 else None)
    try:
        if as_json:
            print_json(summary)
        elif climbs:
            tell(*climb_sections(summary))
        else:
            tell(*report_sections(summary, out=out[0] if len(out) == 1 else "OUT"))
    finally:  # printing fails if the reader closes the pipe
        if write:
            reports.leave(SweepStore(write), summary, climb_html if climbs else reports.html)
    if write and not as_json:
        say(f"\nAlso written to {write}/report.html and report.json.", style="dim")


def _replay(out: list[str], named: str, *, as_json: bool) -> None:
    """``report --replay``: prints its result and writes no file."""
    from hc_ray.domain.config import OWN
    from hc_ray.machine.own_code import keep, selector_of
    from hc_ray.reports.replay.pools import SELECTORS

    own = OWN.fullmatch(named)
    if not own and named not in (*SELECTORS, "all"):
        raise ConfigError(f"--replay {named}: unknown selector; allowed: {', '.join(SELECTORS)}, all")
    selector: Any = keep(named, selector_of) if own else None if named == "all" else named
    if len(out) > 1:
        raise ConfigError("--replay takes one sweep directory; name only one")
    from hc_ray.reports.replay.figures import replay
    from hc_ray.reports.replay.text import replay_sections

    found = replay(sweep_store(out[0]), selector)
    answer(as_json, found, *replay_sections(found))


def status(out: Out, as_json: Json = False) -> None:
    """Show the progress of a sweep, even while it runs."""
    from hc_ray.cli.text import tell_status
    from hc_ray.reports.status import status_of

    found = status_of(sweep_store(out))
    print_json(found) if as_json else tell_status(found, out)


def export_harbor(
    out: Out,
    to: Annotated[str, Option("--to", metavar="DIR", help="Harbor's folder of jobs.")] = "jobs",
    as_json: Json = False,
) -> None:
    """Export a sweep as a Harbor job, for `harbor view DIR`. Of the grading, it contains only the verdicts."""
    from pathlib import Path

    from hc_ray.reports.harbor_job import job_files

    name = Path(out.rstrip("/")).absolute().name
    folder = Path(to, name)
    files = job_files(sweep_store(out), name)
    if folder.exists():
        raise OutputError(f"{folder} already exists; remove it, or choose another folder with --to")
    try:
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror}") from None
    trials = sum(path.endswith("/result.json") for path in files)
    told = f"Wrote {trials} trials to {folder}. To view them: harbor view {to}"
    answer(as_json, {"job": str(folder), "trials": trials}, told)
