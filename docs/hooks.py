"""What mkdocs does not do by itself: pages that are made from the code, and a check that what pages say can be typed.

Every ``hc-ray …`` line must parse (its verb and its options exist), every YAML block must be a config, and every
setting, script, config and link that a page names must exist. A fault is a warning, on which ``mkdocs build --strict``
fails."""

import contextlib
import io
import logging
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import griffe
import typer
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hc_ray.cli.app import app
from hc_ray.cli.config_keys import is_known
from hc_ray.cli.config_loader import SET, load_config, setting
from hc_ray.domain.config import SweepConfig
from hc_ray.domain.errors import UserError

ROOT = Path(__file__).parents[1]
LOG = logging.getLogger("mkdocs.hooks.hc_ray")
AT_TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")
"""Pages beside the site, checked with it."""
OF_THEIR_DAY = ("results.md", "decisions.md")
"""Dated records: what they name existed when they were written."""
_MODELS = {
    "": "SweepConfig", "solver": "SolverConfig", "solver.testgen": "TestgenConfig", "budget": "BudgetConfig",
    "engine": "EngineConfig", "engine.sampling": "Sampling", "retries": "RetryConfig", "climb": "ClimbSettings",
}  # fmt: skip
_VALUES = ("task", "prompt", "candidate", "suite", "trial", "profile", "events")
_ACT_AT_ONCE = ("--install-completion", "--show-completion")
"""Options that do their work while they are parsed."""
_KEY = re.compile(r"(solver|budget|engine|roles|retries|climb)(\.[a-z_0-9]+)+(?<!\.json)(?<!\.yaml)(?=[:= ]|$)")
_PATH = re.compile(r"(?:^|(?<=\s))(?:scripts|configs)/[\w./-]*\w")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made from the code."""
    for name, page in (("config", config_page), ("commands", commands_page), ("values", values_page)):
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> None:
    """Checks a page of the site."""
    where = page.file.src_uri
    for fault in () if where in OF_THEIR_DAY else faults_of(markdown):
        LOG.warning("%s: %s", where, fault)


def on_post_build(**_: Any) -> None:
    """Checks the pages beside the site."""
    for name in AT_TOP:
        text = (ROOT / name).read_text(encoding="utf-8")
        for fault in (*faults_of(text), *dead_links(text, ROOT)):
            LOG.warning("%s: %s", name, fault)


# What pages say


def faults_of(markdown: str) -> Iterator[str]:
    """What of a page cannot be typed as it stands there."""
    for kind, block in re.findall(r"^[ ]*```(\w+)[^\n]*\n(.*?)^[ ]*```", markdown, re.DOTALL | re.MULTILINE):
        if kind in ("sh", "bash", "console"):
            for line in re.sub(r"(^|\s)#.*", "", block.replace("\\\n", " "), flags=re.MULTILINE).splitlines():
                yield from faults_of_code(line, whole=True)
        elif kind == "yaml":
            yield from _told(lambda text=block: load_config(base=yaml.safe_load(text)), block.partition("\n")[0])
    prose = re.sub(r"^[ ]*```.*?^[ ]*```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose):
        yield from faults_of_code(" ".join(code.split()), whole=False)


def faults_of_code(code: str, *, whole: bool) -> Iterator[str]:
    """Faults of a line of shell or of code in a sentence. ``whole``: nothing that its commands need may be missing."""
    for words in commands_of(code):
        yield from _told(lambda words=words: parse(words, whole=whole), f"hc-ray {' '.join(words)}")
        for text in (after for word, after in pairwise(words) if word == SET and "=" in after):
            yield from _told(lambda text=text: setting(text), f"hc-ray {' '.join(words)}")
    if (key := _KEY.match(code)) and not is_known(key[0]):
        yield f"`{key[0]}` is no setting"
    paths = (path for path in _PATH.findall(code) if not re.search(r"/[A-Z]+\b", path))  # TASK stands for any
    yield from (f"`{path}` does not exist" for path in paths if not (ROOT / path).exists())


def commands_of(code: str) -> Iterator[list[str]]:
    """The words after each ``hc-ray`` of a line, quoted for another program or not."""
    for found in re.finditer(r"(?:^|[\s'/])hc-ray (?=[a-z-])", code):
        rest = code[found.end() :]
        lexer = shlex.shlex(
            rest.rpartition("'")[0] if rest.count("'") % 2 else rest, posix=True, punctuation_chars=True
        )
        lexer.whitespace_split = True
        words = takewhile(lambda word: not set(word) <= set("();<>|&"), lexer)
        yield [word for word in words if word not in ("…", "...")]


def parse(words: Sequence[str], *, whole: bool) -> None:
    """Raises typer's error for a line that ``hc-ray`` would refuse."""
    command: Any = typer.main.get_command(app)
    name, above, rest = "hc-ray", None, [word for word in words if word not in _ACT_AT_ONCE]
    if not rest:
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(typer.Exit):
        while True:
            try:
                above = command.make_context(name, rest, parent=above)
            except typer.TyperException as error:
                lacking = ("MissingParameter", "BadParameter", "BadOptionUsage", "NoArgsIsHelpError")
                if whole or type(error).__name__ not in lacking:
                    raise
                return
            if not hasattr(command, "commands"):
                return
            name, command, rest = command.resolve_command(above, [*above._protected_args, *above.args])


def _told(check: Any, said: str) -> Iterator[str]:
    try:
        check()
    except (UserError, typer.TyperException, ValueError, yaml.YAMLError) as error:
        yield f"`{said}`: {getattr(error, 'message', None) or error}"


def dead_links(markdown: str, folder: Path) -> Iterator[str]:
    """Relative links that lead nowhere."""
    for link in re.findall(r"\]\(([^)#\s]+)", markdown):
        if "://" not in link and not (folder / link).exists():
            yield f"the link {link} leads nowhere"


# Pages made from the code


def commands_page() -> str:
    """Every verb with its help."""
    parts = ["# Commands\n\nThe help of every command, as `hc-ray COMMAND --help` prints it.\n"]

    def add(command: Any, path: str) -> None:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                add(inner, f"{path} {name}")
        else:
            context = command.context_class(
                command, info_name=path, terminal_width=100, help_option_names=["-h", "--help"]
            )
            parts.append(f"## {path}\n\n```text\n{command.get_help(context)}\n```\n")

    add(typer.main.get_command(app), "hc-ray")
    return "\n".join(parts)


def values_page() -> str:
    """Every value that moves between stages, with its fields."""
    told = "What moves between the stages of a trial: immutable pydantic models, which refuse unknown fields."
    parts = [f"# Values\n\n{told}\n"]
    for name in _VALUES:
        module = griffe.load(f"hc_ray.domain.{name}")
        parts += [f"## {name.capitalize()}\n", f"{module.docstring.value if module.docstring else ''}\n"]
        for one in (one for one in module.classes.values() if not one.is_alias and one.name[0] != "_"):
            fields = [field for field in one.attributes.values() if field.annotation and "property" not in field.labels]
            parts += [f"### {one.name}\n", f"{one.docstring.value if one.docstring else ''}\n"]
            parts += ["| field | type | default | meaning |", "|---|---|---|---|"] if fields else []
            for field in fields:
                default = f"`{field.value}`" if field.value is not None else ""
                meaning = _line(field.docstring.value) if field.docstring else ""
                parts.append(f"| `{field.name}` | `{field.annotation}` | {default} | {meaning} |")
            parts.append("")
    return "\n".join(parts)


def config_page() -> str:
    """Every setting with what it takes, its default and its description."""
    schema = SweepConfig.model_json_schema()
    parts = [
        "# Settings\n\nA config file is one YAML file with these keys. `--set KEY=VALUE` sets any of them on the "
        "command line, with dots for levels: `--set solver.samples=8`. A model's profile has defaults of its own for "
        "some keys (`configs/profiles`); the plan of a sweep names the profile.\n"
    ]
    for above, name in _MODELS.items():
        module = "engine_config" if above.startswith("engine") else "config"
        source = griffe.load(f"hc_ray.domain.{module}")[name]
        owner = schema if not above else schema["$defs"][name]
        parts += [f"## {above or 'Top level'}\n", source.docstring.value, "\n| key | takes | default | meaning |"]
        parts += ["|---|---|---|---|", *(_row(above, key, field, source) for key, field in owner["properties"].items())]
        parts.append("")
    return "\n".join(parts)


def _row(above: str, key: str, field: dict[str, Any], source: Any) -> str:
    told, full = source.members[key].docstring, f"{above}.{key}".strip(".")
    if full in _MODELS:
        more = f"See [{full}](#{full.replace('.', '')})"
        return f"| `{key}` | settings | | {f'{_line(told.value)} ' if told else ''}{more} |"
    if told is None:
        LOG.warning("the setting %s has no description", full)
    default = yaml.safe_dump(field.get("default"), default_flow_style=True, width=1000).splitlines()[0]
    return f"| `{key}` | {takes(field)} | `{default}` | {_line(told.value) if told else ''} |"


def _line(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").replace("None:", "`null`:")


def takes(field: dict[str, Any]) -> str:
    """What a field takes, in words, from its JSON schema."""
    if options := field.get("anyOf"):
        return " or ".join(takes(one) for one in options)
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if "$ref" in field:
        return "settings"
    kind = {
        "integer": "whole number",
        "array": "list",
        "object": "mapping",
        "boolean": "`true`, `false`",
        "null": "`null`",
    }
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {field[name]:g}" for name, sign in bounds.items() if name in field]
    if field.get("type") == "array" and field.get("items"):
        return f"list of: {takes(field['items'])}"
    return " ".join([kind.get(field.get("type", ""), field.get("type", "anything")), ", ".join(limits)]).strip()
