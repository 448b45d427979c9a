"""hc-ray's roles as Agent Skills for Claude. Each skill is built from the prompts and schemas that the role itself
uses, so that the two cannot drift apart. The examples belong to no dataset."""

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from hc_ray import __version__
from hc_ray.climb import meta_reasoner
from hc_ray.climb.evaluation import Aggregates
from hc_ray.climb.knobs import Site, live
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import OutputError
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.task import Environment
from hc_ray.engines.profiles import shipped
from hc_ray.search import decompose
from hc_ray.selftests import file_tester
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Spec

_TEXTS = Path(__file__).with_suffix(".yaml")
_SEEN = Aggregates(tasks=20, trials=60, pass_rate=0.45, means={"self_pass": 0.7, "turns": 28, "ended by turns": 0.5})
"""Sample input for the meta-reasoner, in place of a real sweep's figures."""
_READ = (
    "Words in ⟨angle brackets⟩ stand for what you find there. `schema.json` is the JSON Schema of what hc-ray reads "
    "from an answer; `examples.md` shows one."
)


def skills() -> dict[str, dict[str, str]]:
    """Skill name → file name → text."""
    texts = yaml.safe_load(_TEXTS.read_text("utf-8"))
    return {name: _files(name, text, texts["testgen"]["answer"]) for name, text in texts.items()}


def prompt_of(name: str, spec: Spec, tests: str = "") -> tuple[Prompt, dict[str, Any]]:
    """A role's prompt about a task, and the JSON Schema of its answer. ``tests``: an answer of the tester, which the
    evaluator judges."""
    capable, around, files = shipped("capable"), "⟨what the environment holds⟩", "⟨the heads of its files⟩"
    tokens, schema = capable.settings["solver.testgen.answer_tokens"], None
    seen = file_tester.Seen(spec=spec, environment=around, files=files, max_tokens=tokens, temperature=0)
    if name == "decomposer":
        prompt = decompose.ask(spec, seed=0, max_tokens=tokens)
    elif name == "meta-reasoner":
        site = Site(solver=SolverConfig(agent_style="loop"), profile=capable)
        prompt = meta_reasoner.ask(_SEEN, (), live(site), site, seed=0)
    elif name == "testgen":
        prompt = file_tester.ask(seen, 0)
        schema = file_tester.Written.model_json_schema()
    else:
        written = file_tester.read(Completion(text=tests), spec)
        known = written.tests if isinstance(written, file_tester.Written) else ()
        prompt = file_tester.ask_reading(seen, 0, known)
        schema = TypeAdapter(dict[str, file_tester.Reading]).json_schema()
    return prompt, schema or prompt.schema_ or {}


def _files(name: str, text: dict[str, str], tests: str) -> dict[str, str]:
    spec = read_spec("⟨the task's text⟩", Environment(workdir="⟨working directory⟩"))
    prompt, schema = prompt_of(name, spec, "```python\ndef test_name():\n    ...  # ⟨and so on, for every test⟩\n```")
    front = {"name": name, "description": text["description"], "metadata": {"hc-ray": __version__}}
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=110)
    asked = "\n\n".join(message.content for message in prompt.messages)
    body = [f"---\n{head}---", f"# {name}", f"{text['note']} {_READ}", asked]
    shown = []
    if task := text.get("task"):
        shown += ["## The task", task.strip()]
        shown += ["## Its tests", tests[tests.index("```") :].strip()] if name == "evaluator" else []
    return {
        "SKILL.md": "\n\n".join(body) + "\n",
        "schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "examples.md": "\n\n".join(["# An example", *shown, "## An answer", text["answer"].strip()]) + "\n",
    }


def export(project: Path, *, force: bool = False) -> list[Path]:
    """Write every skill below ``project/.claude/skills`` and return the files' paths. Raises ``OutputError`` if a file
    cannot be written or, unless ``force``, exists with different text; then nothing is written."""
    root = project / ".claude" / "skills"
    wanted = {root / name / file: text.encode() for name, files in skills().items() for file, text in files.items()}
    try:
        differing = [path for path, text in wanted.items() if path.exists() and path.read_bytes() != text]
        if differing and not force:
            raise OutputError(
                f"{', '.join(map(str, differing))}: already exists with different text; nothing was written. "
                "Move your own files away, or pass --force to replace them"
            )
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    except OSError as error:
        raise OutputError(f"{error.filename or root}: {error.strerror or error}") from None
    return sorted(wanted)
