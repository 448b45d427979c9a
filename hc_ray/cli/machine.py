"""``doctor``, ``clean``, ``ui``, ``export mlflow``: check this machine, remove leftovers, show a sweep in MLflow."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hc_ray.cli.options import Json, answer, sweep_store
from hc_ray.domain.errors import ConfigError, OutputError
from hc_ray.reports.page import Section


def doctor(
    fix: Annotated[bool, Option("--fix", help="Run the remedies that are hc-ray commands, then check again.")] = False,
    as_json: Json = False,
) -> int:
    """Check what works on this machine. Shows which resource limits are enforced and how to fix each failure. Exits
    with 1 if no sweep can run here or a remedy failed."""
    from hc_ray.cli.app import NAME, run
    from hc_ray_actors.jobs.doctor import MODEL, examine, lacking

    findings, failed = examine(), False
    remedies = [finding.remedy for finding in findings if fix and finding.remedy.startswith(f"{NAME} ")]
    with contextlib.redirect_stdout(sys.stderr):
        for remedy in remedies:
            typer.echo(remedy)
            failed |= run(remedy.split()[1:]) != 0
    if remedies:
        findings = examine()
    rows = [("ok" if one.ok else "no", one.name, one.says) for one in findings]
    lines = [f"{one.name}: {one.remedy}" for one in findings if not one.ok and one.remedy]
    if not any(one.ok for one in findings if one.name.startswith(MODEL)):
        lines.append("Agents that use a model need one here, or one on a server (--base-url URL)")
    if lacks := lacking(findings):
        lines.append(f"To run a sweep, this machine lacks: {', '.join(lacks)}")
    answer(as_json, {"findings": findings, "lacks": lacks}, Section("", ("", "check", "result"), rows), *lines)
    return 1 if lacks or failed else 0


def clean(
    dry_run: Annotated[bool, Option("--dry-run", help="List what would be removed; remove nothing.")] = False,
    images: Annotated[bool, Option("--images", help="Also remove task images and the runner's volume.")] = False,
    as_json: Json = False,
) -> None:
    """Remove what dead hc-ray processes left behind. Covers processes, sandboxes, containers, images, temporary
    folders."""
    from hc_ray.domain.value import counted
    from hc_ray_actors.jobs.doctor import clean as remove_leftovers

    cleaned = remove_leftovers(images=images, dry=dry_run)
    lines = [*cleaned.removed, f"{counted(len(cleaned.removed), 'leftover')} {'found' if dry_run else 'removed'}"]
    if cleaned.note:
        lines.append(cleaned.note)
    if cleaned.kept:
        lines.append(f"{len(cleaned.kept)} cached images and volumes kept (--images removes them)")
    answer(as_json, {"dry_run": dry_run, **cleaned.model_dump(mode="json")}, *lines)


def ui(
    out: Annotated[str, Argument(help="A sweep directory, or a folder of several.")] = "runs",
    port: Annotated[
        int, Option("--port", min=0, max=65535, help="Port on the loopback interface; 0 picks any free one.")
    ] = 5000,
    as_json: Json = False,
) -> None:
    """Serve MLflow for a sweep, on the loopback interface only. Stop it with Ctrl-C."""
    from hc_ray.domain.errors import EngineError, PlatformError
    from hc_ray.engines.server import ServerProcess, is_free
    from hc_ray.machine.cleanup import owned_folder, remove_folder
    from hc_ray.stores.mlflow_environment import environment

    uri, host = _store_of(out), "127.0.0.1"
    if port and not is_free(host, port):
        raise PlatformError(f"port {port} on {host} is in use; choose another with --port (0: any free one)")
    served = "hc_ray.stores.mlflow_tracker:served"
    command = [sys.executable, "-m", "uvicorn", "--host", host, "--port", "{port}", "--factory", served]
    variables = {
        **os.environ,
        **environment(),
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    logs = owned_folder("ui")
    server = ServerProcess(command, what="MLflow's server", environment=variables, log_path=logs / "ui.log",
                           start_seconds=180.0, host=host, port=port)  # fmt: skip
    try:
        url = server.start().removesuffix("/v1")
    except EngineError as fault:  # names its log, which stays until the next start or ``clean``
        raise PlatformError(str(fault)) from None
    try:
        lines = f"MLflow for {uri}\n{url}  (Ctrl-C stops it)"
        answer(as_json, {"url": url, "store": uri, "pid": server.pid}, lines)
        server.wait()
    finally:
        server.stop()
        remove_folder(logs)


def _store_of(out: str) -> str:
    """The SQLite store of a sweep or climb, or of the folder that contains them."""
    from hc_ray.reports.report import stored_json
    from hc_ray.stores.sweep_directory import SweepStore
    from hc_ray_actors.driver.results import default_tracking_uri

    store = SweepStore(out)
    sweep, climb = stored_json(store, "sweep.json") or {}, stored_json(store, "settings.json") or {}
    config = sweep.get("config") or climb.get("given")
    uri = (config or {}).get("mlflow_uri") or "none"
    if uri.startswith("http"):
        raise OutputError(f"{out} logs to the tracking server {uri}; open that address in a browser")
    if uri == "none":
        uri = default_tracking_uri(out if "://" in out or config else f"{out}/any")
    if not Path(uri.removeprefix("sqlite:///")).is_file():
        why = "a sweep with --mlflow-uri none writes none" if config else "it is not a sweep directory"
        raise OutputError(f"{out}: no MLflow store found ({why})")
    return uri


def export_mlflow(
    out: Annotated[str, Argument(help="A sweep directory, or the folder of a climb.")],
    mlflow_uri: Annotated[
        str | None, Option("--mlflow-uri", help="A tracking server. Default: the sweep's own store.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Export a sweep or climb to MLflow from its directory. Updates existing runs."""
    from hc_ray.domain.credentials import url_fault
    from hc_ray.reports import report
    from hc_ray.reports.climb_report import is_climb
    from hc_ray.stores.sweep_directory import SweepStore
    from hc_ray_actors import tracker
    from hc_ray_actors.driver.results import default_tracking_uri
    from hc_ray_actors.jobs.climb_story import climb_story

    if mlflow_uri and (fault := url_fault(mlflow_uri)):
        raise ConfigError(f"--mlflow-uri: the URI {fault}; set MLFLOW_TRACKING_USERNAME and …_PASSWORD instead")
    uri = mlflow_uri or default_tracking_uri(out)
    if is_climb(SweepStore(out)):
        run = tracker.tell(uri, out, climb_story(out))
    else:
        run = tracker.export(uri, out, report.summarise(sweep_store(out)))
    answer(as_json, {"store": uri, "run_id": run}, f"{uri}: parent run {run}")
