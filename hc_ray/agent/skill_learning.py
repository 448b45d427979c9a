"""Distils a skill from a kind of task that a sweep nearly always solves: what its passing answers have in common.

For Python files these are imports and constructs, for others only the plan that they followed. Only features of answers
to several tasks count, and no line may contain a word of a single task. A kind that a skill already covers gets a new
version of that skill, with the provenance of each version, never a second skill."""

import ast
import re
import sys
import types
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from hc_ray.agent.prompt_formats import plan_text
from hc_ray.agent.skills import Skill
from hc_ray.domain.value import Value
from hc_ray.spec.source import parsed
from hc_ray.tasks.vocabulary import Vocabulary

LEAST_RATE, LEAST_TRIALS, LEAST_TASKS = 0.9, 5, 2
"""A kind is learned from above this pass rate, with at least this many trials and tasks."""
_KIND = re.compile(r"[a-z][a-z0-9]{0,15}")
_SHARE = 0.5
_HEADING = "What passed here had in common:"
_CONSTRUCTS: tuple[tuple[type[ast.AST] | types.UnionType, str], ...] = (
    (ast.With, "They open files in a with block."),
    (ast.Raise, "They raise an exception for input that is not allowed."),
    (ast.Try, "They catch the exception that bad input causes."),
    (ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp, "They build results by comprehensions."),
)


class Solved(Value):
    """One scored dev trial, with its submitted answer."""

    task: str
    """The task's public digest."""
    kind: str
    """The suffix of the requested file; empty if unknown."""
    passed: bool
    files: dict[str, str] = {}
    plan: str = ""


class Lesson(Value):
    """The result for one kind of task."""

    kind: str
    trials: int
    tasks: int
    rate: float
    skill: Skill | None = None
    why: str = ""
    """Why no skill was written, or which lines were left out."""


def lessons(
    trials: Sequence[Solved], known: Vocabulary, skills: Sequence[Skill], provenance: Mapping[str, Any]
) -> tuple[Lesson, ...]:
    """A lesson per kind. ``skills``: the installed ones; ``provenance``: data about the sweep to record."""
    kinds: defaultdict[str, list[Solved]] = defaultdict(list)
    for trial in trials:
        kinds[trial.kind].append(trial)
    return tuple(_lesson(kind, kinds[kind], known, skills, provenance) for kind in sorted(kinds))


def _lesson(
    kind: str, trials: Sequence[Solved], known: Vocabulary, skills: Sequence[Skill], provenance: Mapping[str, Any]
) -> Lesson:
    tasks = {trial.task for trial in trials}
    rate = sum(trial.passed for trial in trials) / len(trials)

    def told(why: str, skill: Skill | None = None) -> Lesson:
        return Lesson(kind=kind, trials=len(trials), tasks=len(tasks), rate=rate, skill=skill, why=why)

    if not _KIND.fullmatch(kind):
        return told("these tasks do not ask for a file of one known suffix")
    if len(trials) < LEAST_TRIALS or len(tasks) < LEAST_TASKS or rate <= LEAST_RATE:
        return told(f"needs {LEAST_TRIALS} trials of {LEAST_TASKS} tasks, more than {LEAST_RATE:.0%} of them passed")
    found = common([trial for trial in trials if trial.passed])
    kept = [line for line in found if not known.found(line)]
    if not kept:
        return told("the passing answers have nothing in common that may be used")
    came = {**provenance, "trials": len(trials), "tasks": len(tasks), "rate": round(rate, 3)}
    skill = _version(kind, kept, skills, came)
    left_out = f"{len(found) - len(kept)} lines contained words of a single task" if len(found) > len(kept) else ""
    return told(left_out or ("" if skill else "the installed skill already says it"), skill)


def _version(kind: str, lines: Sequence[str], skills: Sequence[Skill], came: Mapping[str, Any]) -> Skill | None:
    """The first or next version of the skill for a kind; None if the installed one already says everything."""
    section = "\n".join((_HEADING, *(f"- {line}" for line in lines)))
    trigger = f"file:{kind}"
    before = next((one for one in skills if trigger in one.triggers), None)
    if before is None:
        name = f"{kind}-files"
        return Skill(name=name, description=f"What solutions in .{kind} files have in common.", triggers=(trigger,),
                     provenance=(came,), body=section)  # fmt: skip
    if section in before.body:
        return None
    kept = before.body.partition(_HEADING)[0].rstrip()
    update = {"version": before.version + 1, "body": f"{kept}\n{section}".strip(), "folder": "",
              "provenance": (*before.provenance, came)}  # fmt: skip
    return before.model_copy(update=update)


def common(passed: Sequence[Solved]) -> list[str]:
    """Sentences that are true of at least half of the passing answers and of at least two tasks."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    """Sentence → the tasks of the answers for which it is true."""
    for trial in passed:
        told = {plan_text(trial.plan)} - {""} if trial.plan else set()
        for path, text in trial.files.items():
            told |= _sentences(text) if path.endswith(".py") else set()
        for sentence in told:
            said[sentence].append(trial.task)
    kept = [one for one, tasks in said.items()
            if len(tasks) >= _SHARE * len(passed) and len(set(tasks)) >= LEAST_TASKS]  # fmt: skip
    lengths = [len(text.splitlines()) for trial in passed for text in trial.files.values()]
    size = [f"They are about {round(median(lengths))} lines long."] if lengths and kept else []
    return sorted(kept, key=lambda one: (-len(said[one]), one)) + size


def _sentences(text: str) -> set[str]:
    """General sentences that are true of a Python file."""
    tree, found = parsed(text), set()
    for node in ast.walk(tree) if tree else ():
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [])  # fmt: skip
        found |= {f"They import {name}." for name in names if name.split(".")[0] in sys.stdlib_module_names}
        found |= {says for kinds, says in _CONSTRUCTS if isinstance(node, kinds)}
    return found
