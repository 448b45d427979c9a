"""The flags that several verbs share, and how they become a config. Names follow Harbor."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from hc_ray.domain.errors import ConfigError, EngineError
from hc_ray.reports.page import Section

if TYPE_CHECKING:
    from hc_ray.domain.config import SweepConfig
    from hc_ray.stores.sweep_directory import SweepStore

Json = Annotated[bool, Option("--json", help="Print one JSON object on stdout; all other text goes to stderr.")]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Print more detail.")]
Config = Annotated[str | None, Option("--config", help="A YAML config file, or the name of a shipped one.")]
DryRun = Annotated[bool, Option("--dry-run", help="Print the plan; run nothing.")]
Address = Annotated[
    str | None,
    Option(
        "--address",
        help="A running Ray cluster: host:port, auto for this machine's, or local for a private Ray.",
    ),
]
WaitNodes = Annotated[
    str | None, Option("--wait-nodes", metavar="N[:SECONDS]", help="Wait until N nodes of the cluster are up.")
]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set any config field, for example solver.samples=8. Repeatable."),
]
Out = Annotated[str, Argument(help="A sweep directory.")]
TestsBy = Annotated[
    str | None,
    Option(
        "--tester",
        help="Models that write the tests, comma-separated: local, a model name, MODEL@URL or module:function.",
    ),
]
Given = dict[str, Any]
"""Shared flag → its value; None if it was not given."""


class Shared(NamedTuple):
    """A flag that sets a field of ``SweepConfig``."""

    field: str
    help: str
    kind: Any = str
    short: str | None = None
    metavar: str | None = None


SHARED = {
    "--path": Shared("dataset", "A folder of tasks, or the name of a shipped dataset.", short="-p"),
    "--include": Shared("include", "Run only tasks whose name matches. Repeatable.", list[str], "-i", "GLOB"),
    "--exclude": Shared("exclude", "Leave out tasks whose name matches. Repeatable.", list[str], "-x", "GLOB"),
    "--tag": Shared("tags", "Run only tasks that have this tag. Repeatable.", list[str], metavar="TAG"),
    "--limit": Shared("limit", "Run at most this many tasks.", int, "-l"),
    "--concurrency": Shared("concurrency", "Trials to run at the same time. Default: as many as pay off.", int, "-n"),
    "--seeds": Shared("seeds", "Trials per task and agent. Default: 1.", int, "-k"),
    "--agent": Shared("agents", "Agent: raw, best_of_n, hc, oracle, nop or your own module:Class. Repeatable. Default: "
                      "the first three.", list[str], "-a", "AGENT"),
    "--split": Shared("split", "Split: dev (the default), holdout (counted as a look) or all (oracle and nop only)."),
    "--out": Shared("out", "The sweep directory: a path, or a URI such as s3://... Default: a new one below runs/.",
                    short="-o"),
    "--sandbox": Shared("sandbox", "Sandbox backend: auto (the default), docker or bwrap."),
    "--network": Shared("network", "Network policy. mention (default): a network only if task.toml declares one; "
                        "task: Harbor's default."),
    "--grading": Shared("grading", "Grading mode. isolated (default): a fresh sandbox, unless a task asks otherwise; "
                        "shared: the candidate's own."),
    "--mlflow-uri": Shared("mlflow_uri", "An MLflow tracking server, or none. Default: SQLite beside the sweep "
                           "directory."),
    "--budget-tokens": Shared("budget.tokens", "Token budget per trial, prompt plus completion tokens. "
                              "Default: the model's.", int),
    "--timeout-multiplier": Shared("budget.timeout_multiplier", "Multiply each task's time limit.", float),
    "--engine": Shared("engine.kind", "Inference engine: embedded, openai, server, anthropic or scripted."),
    "--base-url": Shared("engine.base_url", "URL of an OpenAI-compatible server, including /v1. Implies --engine "
                         "openai."),
    "--model": Shared("engine.model", "Model for every role: a catalogue name, a GGUF file, or the server's model "
                      "name."),
    "--script": Shared("engine.script", "MODULE:FUNCTION that answers prompts. Implies --engine scripted."),
    "--api-key-env": Shared("engine.api_key_env", "Name of the environment variable that holds the server's API key."),
    "--min": Shared("solver.testgen.total_min", "Minimum number of tests in the suite.", int),
    "--max": Shared("solver.testgen.total_max", "Maximum number of tests in the suite.", int),
}  # fmt: skip
SWEEP = tuple(name for name, flag in SHARED.items() if not flag.field.startswith("solver."))
TASKS = ("--path", "--include", "--exclude", "--tag", "--limit")
ENGINE = ("--engine", "--base-url", "--model", "--script", "--api-key-env")

Verb = Callable[..., int | None]


def takes(*names: str) -> Callable[[Verb], Verb]:
    """Decorate a verb with shared flags, which replace its parameter ``given`` and arrive in it, by name."""

    def parameter(name: str) -> inspect.Parameter:
        flag = SHARED[name]
        option = Option(*filter(None, (name, flag.short)), metavar=flag.metavar, help=flag.help)
        return inspect.Parameter(_word(name), inspect.Parameter.KEYWORD_ONLY, default=None,
                                 annotation=Annotated[flag.kind | None, option])  # fmt: skip

    def with_flags(verb: Verb) -> Verb:
        def called(**values: Any) -> int | None:
            return verb(given={name: values.pop(_word(name)) for name in names}, **values)

        parameters: list[inspect.Parameter] = []
        signature = inspect.signature(verb)
        for one in signature.parameters.values():
            own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
            parameters += map(parameter, names) if one.name == "given" else own
        called.__name__, called.__doc__ = verb.__name__, verb.__doc__
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return called

    return with_flags


def _word(name: str) -> str:
    return name.strip("-").replace("-", "_")


_OF_RUN = {"agents", "seeds", "first_seed", "dataset", "include", "exclude", "tags", "limit", "split", "configs",
           "grid"}  # fmt: skip
"""Fields that ``run`` sets itself."""


def sets_of_run(texts: Sequence[str]) -> Sequence[str]:
    """Check the ``--set`` of ``run``. Raises ``ConfigError`` for a field that ``run`` sets itself."""
    for key in (text.partition("=")[0].strip() for text in texts):
        if key.partition(".")[0] in _OF_RUN:
            raise ConfigError(f"--set {key}: `run` runs one trial, with the task, agent and seed given by -p, -a and "
                              "--seed; for more, use `sweep`")  # fmt: skip
    return texts


def config_from(
    file: str | None,
    given: Mapping[str, Any],
    *,
    base: Mapping[str, Any] | None = None,
    sets: Sequence[str] | None = None,
    tester: str | None = None,
) -> "SweepConfig":
    """The settings of a run: defaults, then ``base`` (settings of an earlier run) or the file, then the given flags,
    then ``sets`` (each ``KEY=VALUE``), then the models of ``--tester``. Raises ``UserError``."""
    from hc_ray.cli.config_loader import Flag, load_config, setting, with_testers

    given = dict(given)
    if given.get("--base-url") and not given.get("--engine"):
        given["--engine"] = "openai"
    if given.get("--script") and not given.get("--engine"):
        given["--engine"] = "scripted"
    flags = [
        Flag(name, SHARED[name].field, list(value) if isinstance(value, list | tuple) else value)
        for name, value in given.items()
        if value not in (None, [], ())
    ] + [setting(text) for text in sets or ()]
    config = load_config(file, flags, base=base)
    if config.engine.kind == "openai" and config.engine.urls and "model" not in config.engine.model_fields_set:
        config = load_config(file, base=base, flags=[*flags, Flag("--model", "engine.model", _only_model(config))])
    return config if tester is None else with_testers(config, tester)


def _only_model(config: "SweepConfig") -> str:
    """The model of a server that serves only one. Raises ``ConfigError`` if the user must choose."""
    import asyncio

    from hc_ray.engines.http import HttpModel

    url = config.engine.urls[0]
    key = os.environ.get(config.engine.api_key_env or "") or None

    async def ask() -> list[str]:
        async with aclosing(HttpModel(url, "", api_key=key, timeout=10, retries=0)) as model:
            return list(await model.models())

    try:
        names = asyncio.run(ask())
    except EngineError as error:
        raise ConfigError(f"--base-url: {error}; is it up, and are URL and key (--api-key-env) right?") from None
    if len(names) == 1:
        return names[0]
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    lists = f"serves {len(names)} models; name one: {shown}" if names else "lists no model; name the one that it serves"
    raise ConfigError(f"--model: {url} {lists}")


def answer(as_json: bool, found: Any, *told: str | Section) -> None:
    """Print a verb's result: ``found`` as one JSON object, or the sentences and tables in ``told``."""
    if as_json:
        return print_json(found)
    from hc_ray.reports.terminal import say, tell

    for one in told:
        say(one) if isinstance(one, str) else tell(one)


def print_json(found: Any) -> None:
    """Print the one JSON object of a command."""
    data = {"schema_version": 1, **found} if isinstance(found, dict) else found
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return list(value) if isinstance(value, Sequence | set | frozenset) else str(value)


def words_beside(as_json: bool) -> AbstractContextManager[Any]:
    """Send text for people to stderr while stdout is reserved for the JSON object."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def sweep_store(out: str) -> "SweepStore":
    """The store of a sweep directory. Raises ``OutputError`` if ``out`` is not one."""
    from hc_ray.stores.sweep_directory import sweep_at

    return sweep_at(out)
