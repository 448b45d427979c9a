"""``models list|pull`` and ``engine bench``: the model catalogue, and measurements of an engine and its model."""

from collections.abc import Iterator
from typing import Annotated, Any

from typer import Argument, Option

from hc_ray.cli.options import Given, Json, Set, answer, config_from, takes, words_beside
from hc_ray.reports.page import Section


def list_models(as_json: Json = False) -> None:
    """List the models in the catalogue, and which of them are downloaded."""
    from hc_ray.engines.catalogue import catalogue

    entries = catalogue().values()
    columns = ("name", "title", "license", "MB", "prompt format", "downloaded")
    rows = [
        (one.name, one.title, one.license, f"{one.size_bytes / 1e6:,.0f}", one.profile.form,
         "yes" if one.pulled else "no")
        for one in entries
    ]  # fmt: skip
    models = [{**entry.model_dump(mode="json"), "pulled": entry.pulled} for entry in entries]
    answer(as_json, {"models": models}, Section("", columns, rows, numbers=("MB",)))


def pull(
    name: Annotated[str | None, Argument(help="A catalogue name. Default: the default model.")] = None,
    as_json: Json = False,
) -> None:
    """Download a model's weights and verify their SHA-256. Does nothing if they are already here."""
    from hc_ray.domain.config import EngineConfig
    from hc_ray.engines.catalogue import pull as fetch

    model = name or EngineConfig().model
    path = str(fetch(model))
    answer(as_json, {"model": model, "path": path}, path)


@takes("--engine", "--base-url", "--model", "--api-key-env")
def bench(
    given: Given,
    profile: Annotated[
        bool, Option("--profile", help="Measure which form of actions works best for the model.")
    ] = False,
    save: Annotated[bool, Option("--save", help="Save the measured profile beside the model.")] = False,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Measure an engine and its model. Takes a minute to find how many parallel requests pay off; later sweeps and
    reports on this machine use the result. With --profile, measures instead whether the model acts better with fenced
    blocks or native tool calls."""
    from hc_ray.reports.terminal import say

    settings = config_from(None, given, sets=set_)
    from hc_ray_actors.jobs.bench import bench_engine

    with words_beside(as_json):
        measured: dict[str, Any] = bench_engine(settings.engine, forms=profile, save=save, tell=say)
    answer(as_json, measured, *(_forms(measured) if profile else ()))


def _forms(measured: dict[str, Any]) -> Iterator[Section | str]:
    numbers = ("answers", "readable", "correct", "tokens per correct one")
    rows = [
        (one["form"], one["answers"], one["read"], one["right"],
         f"{one['tokens_each']:,.0f}" if one["tokens_each"] else "-")
        for one in measured["figures"]
    ]  # fmt: skip
    yield Section("", ("form of actions", *numbers), rows, numbers=numbers)
    for key, found in measured["differences"].items():
        if found["delta"] is not None:
            span = f"{found['delta']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f}, p {found['p']:.2f})"
            yield f"# {key}: share of correct answers, the other form minus the default: {span}"
    yield "# for a profile's `settings`, or for --set KEY=VALUE:"
    yield from (f"{key}: {value}" for key, value in measured["settings"].items())
    if measured["saved"]:
        yield f"saved: {measured['saved']}"
