"""The flags that several verbs share, and how they become a config. Names follow Harbor's."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hc_ray.cli.completions import choices, configs, keys, models

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig
    from hc_ray.stores.sweep_directory import SweepStore

ENGINE = "Engine"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; all other text goes to stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more detail.")]
Out = Annotated[str | None, typer.Option("--out", "-o", help="The sweep directory: a path, or a URI such as s3://...")]
Config = Annotated[
    str | None,
    typer.Option("--config", autocompletion=configs, help="A YAML config file, or the name of a shipped one."),
]
Path = Annotated[str | None, typer.Option("--path", "-p", help="A folder of tasks, or the name of a shipped dataset.")]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", "-i", metavar="GLOB", help="Run only tasks whose name matches. Repeatable."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", "-x", metavar="GLOB", help="Leave out tasks whose name matches. Repeatable."),
]
Tag = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Run only tasks that have this tag. Repeatable.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-l", help="Run at most this many tasks.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; run nothing.")]
Agents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        "-a",
        metavar="AGENT",
        autocompletion=choices("agents"),
        help="Agent: raw, best_of_n, hc, oracle or nop. Repeatable.",
    ),
]
Split = Annotated[
    str | None,
    typer.Option("--split", autocompletion=choices("split"), help="Split: dev, holdout (counted as a look) or all."),
]
Sandbox = Annotated[
    str | None,
    typer.Option("--sandbox", autocompletion=choices("sandbox"), help="Sandbox backend: auto, docker or bwrap."),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        autocompletion=choices("engine", "kind"),
        help="Inference engine: embedded, openai or scripted.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="URL of an OpenAI-compatible server, including /v1. Implies --engine openai."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        autocompletion=models,
        help="Model for every role: a catalogue name, a GGUF file, or the server's model name.",
    ),
]
Script = Annotated[
    str | None, typer.Option("--script", help="MODULE:FUNCTION that answers prompts. Implies --engine scripted.")
]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", help="Name of the environment variable that holds the server's API key.")
]
BudgetTokens = Annotated[
    int | None, typer.Option("--budget-tokens", help="Token budget of a trial, prompt and completion tokens together.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=keys,
        help="Set any config field, for example solver.samples=8. Repeatable.",
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        autocompletion=choices("network"),
        help="Network policy. mention: a network only where task.toml declares one; task: Harbor's default.",
    ),
]
Grading = Annotated[
    str | None,
    typer.Option(
        "--grading",
        autocompletion=choices("grading"),
        help="Grading mode. isolated: a fresh sandbox, unless a task asks otherwise; shared: the candidate's own.",
    ),
]

FIELDS: Mapping[str, tuple[str, ...]] = {
    "--path": ("dataset",),
    "--include": ("include",),
    "--exclude": ("exclude",),
    "--tag": ("tags",),
    "--limit": ("limit",),
    "--concurrency": ("concurrency",),
    "--seeds": ("seeds",),
    "--agent": ("agents",),
    "--split": ("split",),
    "--out": ("out",),
    "--sandbox": ("sandbox",),
    "--network": ("network",),
    "--grading": ("grading",),
    "--mlflow-uri": ("mlflow_uri",),
    "--budget-tokens": ("budget", "tokens"),
    "--timeout-multiplier": ("budget", "timeout_multiplier"),
    "--engine": ("engine", "kind"),
    "--base-url": ("engine", "base_url"),
    "--model": ("engine", "model"),
    "--script": ("engine", "script"),
    "--api-key-env": ("engine", "api_key_env"),
    "--min": ("solver", "testgen", "total_min"),
    "--max": ("solver", "testgen", "total_max"),
}
"""Flag → the field of ``SweepConfig`` that it sets."""


_ONE = "name the task with -p"
_OF_RUN = {
    "agents": "name the agent with -a", "seeds": "set the seed with --seed", "dataset": _ONE, "include": _ONE,
    "exclude": _ONE, "tags": _ONE, "limit": _ONE, "split": _ONE,
    "configs": "set what it changes itself", "grid": "set the key itself",
}  # fmt: skip
"""Fields that ``run`` decides itself → what takes their place."""


def sets_of_run(texts: Sequence[str]) -> Sequence[str]:
    """The ``--set`` of ``run``. Raises ``ConfigError`` for a field that ``run`` decides itself."""
    from hc_ray.domain.errors import ConfigError

    for key in (text.partition("=")[0].strip() for text in texts):
        if says := _OF_RUN.get(key.partition(".")[0]):
            raise ConfigError(f"--set {key}: `run` runs one trial of one task; {says}, or use `sweep`")
    return texts


def config_from(
    file: str | None, given: Mapping[str, Any], *, base: Mapping[str, Any] | None = None, sets: Sequence[str] = ()
) -> "SweepConfig":
    """The settings of a run: defaults, then ``base`` (those of an earlier start) or the file, then the flags that were
    given, then ``sets``, each ``KEY=VALUE``. Raises ``UserError``."""
    from hc_ray.cli.config_loader import Flag, load_config, setting

    given = dict(given)
    if given.get("--base-url") and not given.get("--engine"):
        given["--engine"] = "openai"
    if given.get("--script") and not given.get("--engine"):
        given["--engine"] = "scripted"
    flags = [
        Flag(name, FIELDS[name], list(value) if isinstance(value, list | tuple) else value)
        for name, value in given.items()
        if value not in (None, [], ())
    ] + [setting(text) for text in sets]
    config = load_config(file, flags, base=base)
    if config.engine.kind == "openai" and config.engine.base_url and "model" not in config.engine.model_fields_set:
        return load_config(file, base=base, flags=[*flags, Flag("--model", FIELDS["--model"], _only_model(config))])
    return config


def _only_model(config: "SweepConfig") -> str:
    """The model of a server that holds just one. Raises ``ConfigError`` where the choice is the user's."""
    import asyncio

    from hc_ray.domain.errors import ConfigError, EngineError
    from hc_ray.engines.http import HttpModel

    url = config.engine.base_url or ""
    key = os.environ.get(config.engine.api_key_env or "") or None

    async def ask() -> tuple[str, ...]:
        model = HttpModel(url, "", api_key=key, timeout=10, retries=0)
        try:
            return await model.models()
        finally:
            await model.aclose()

    try:
        names = asyncio.run(ask())
    except EngineError as error:
        raise ConfigError(f"--base-url: {error}") from None
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise ConfigError(
        f"--model: {url} " + (f"serves {len(names)} models; name one: {shown}" if names else "lists no model")
    )


def engine_flags(
    engine: str | None, base_url: str | None, model: str | None, script: str | None, api_key_env: str | None
) -> dict[str, Any]:
    return {
        "--engine": engine,
        "--base-url": base_url,
        "--model": model,
        "--script": script,
        "--api-key-env": api_key_env,
    }


def print_json(data: Any) -> None:
    """The one JSON object of a command."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, Sequence | set | frozenset) else str(value)


def plain(value: Any) -> dict[str, Any]:
    """A pydantic value as JSON data."""
    data: dict[str, Any] = value.model_dump(mode="json")
    return data


def people(json_asked: bool) -> Any:
    """Where words for people go: stdout, or stderr where stdout belongs to the JSON object."""
    return sys.stderr if json_asked else sys.stdout


def sweep_store(out: str) -> "SweepStore":
    """The store of a sweep directory. Raises ``OutputError`` where there is no sweep."""
    from hc_ray.stores.sweep_directory import sweep_at

    return sweep_at(out)
