"""``models list|pull`` and ``engine bench``: the model catalogue, and the measurement of an engine and its model."""

from typing import IO, Annotated, Any

import typer

from hc_ray.cli.options import Given, Json, Set, config_from, people, print_json, takes


def list_models(as_json: Json = False) -> int:
    """List the models of the catalogue, and which are downloaded."""
    from hc_ray.engines.catalogue import catalogue

    entries = catalogue()
    if as_json:
        models = [{**entry.model_dump(mode="json"), "pulled": entry.pulled} for entry in entries.values()]
        print_json({"schema_version": 1, "models": models})
        return 0
    from hc_ray.reports.terminal import table

    table(
        ("name", "title", "license", "MB", "prompt format", "downloaded"),
        [
            (entry.name, entry.title, entry.license, f"{entry.size_bytes / 1e6:,.0f}", entry.profile.form,
             "yes" if entry.pulled else "no")
            for entry in entries.values()
        ],
        numbers=("MB",),
    )  # fmt: skip
    return 0


def pull(
    name: Annotated[str | None, typer.Argument(help="A catalogue name. Default: the default model.")] = None,
    as_json: Json = False,
) -> int:
    """Download a model's weights and verify their SHA-256. Does nothing if they are present."""
    from hc_ray.domain.config import EngineConfig
    from hc_ray.engines.catalogue import pull as fetch

    path = fetch(name or EngineConfig().model)
    if as_json:
        print_json({"schema_version": 1, "model": name or EngineConfig().model, "path": str(path)})
    else:
        typer.echo(path)
    return 0


@takes("--engine", "--base-url", "--model", "--api-key-env")
def bench(
    given: Given,
    profile: Annotated[
        bool, typer.Option("--profile", help="Measure in which form of actions the model is best asked.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Save the measured profile beside the model.")] = False,
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Measure an engine and its model. Finds within a minute how many parallel requests pay off (later sweeps and
    reports on this machine use it); with --profile instead whether the model acts better by fenced blocks or native
    tool calls."""
    from hc_ray.reports.terminal import say

    settings = config_from(None, given, sets=set_ or ())
    from hc_ray_actors.jobs.bench import bench_engine

    stream = people(as_json)
    measured: dict[str, Any] = bench_engine(
        settings.engine, forms=profile, save=save, tell=lambda line: say(line, stream=stream)
    )
    if profile:
        _show_forms(measured, stream)
    if as_json:
        print_json(measured)
    return 0


def _show_forms(measured: dict[str, Any], stream: IO[str]) -> None:
    from hc_ray.reports.terminal import say, table

    numbers = ("answers", "readable", "right", "tokens per right one")
    rows = []
    for one in measured["figures"]:
        each = f"{one['tokens_each']:,.0f}" if one["tokens_each"] else "-"
        rows.append((one["form"], one["answers"], one["read"], one["right"], each))
    table(("form of actions", *numbers), rows, numbers=numbers, stream=stream)
    for key, found in measured["differences"].items():
        if found["delta"] is not None:
            span = f"{found['delta']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f}, p {found['p']:.2f})"
            say(f"# {key}: share of right ones, the other form against the default: {span}", stream=stream)
    say("# for a profile's `settings`, or as --set KEY=VALUE:", stream=stream)
    for key, value in measured["settings"].items():
        say(f"{key}: {value}", stream=stream)
    if measured["saved"]:
        say(f"saved: {measured['saved']}", stream=stream)
