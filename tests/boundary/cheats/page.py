"""The page docs/trust-cheats.md, made from what runs of the corpus recorded. Run by ``scripts/cheats-table``
and ``scripts/trust-page``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.boundary.cheats.cheat import OWN, TASKS, Cheat
from tests.boundary.cheats.corpus import CORPUS, PLACES
from tests.boundary.cheats.trial import Outcomes

Recorded = dict[str, dict[str, dict[str, tuple[bool | None, str]]]]
"""Kind of sandbox and mode of grading → cheat → task → (passed, cause)."""
MODES = ("isolated", "shared")
_HEAD = """# Cheats tried and what they earned

`scripts/cheats-table` or `scripts/trust-page` writes this page from a run of `tests/boundary/test_cheats.py`; do not
edit it by hand. Every cheat was tried for real, with code that does not solve the task, in each kind of sandbox and
each grading mode named: *isolated* means a fresh sandbox with the submission applied, *shared* the candidate's own
running sandbox. A cell holds the cause of the verdict; **passed** in bold is a forged reward. The causes:

"""
_CAUSES = {
    "failed": "the tests ran and gave a reward below 1",
    "tampered": "what the tests depend on was changed: they did not run, or (shared) their result does not count",
    "submission_refused": "no honest difference looks like this; nothing ran",
    "not_handed_in": "the solver's sandbox refuses to turn it into a submission",
    "no_verdict": "no reward file was left",
    "empty_verdict": "the reward file was empty or not a plain file",
    "malformed_verdict": "the reward file held no finite number",
    "timeout": "the tests ran past their time limit",
    "verifier_lost": "the candidate killed the verifier's process",
    "witness_disagrees": "a reward was written that the pytest sessions do not confirm",
    "witness_absent": "a reward was written, but no pytest session reported",
}


def record(folder: Path, way: str, outcomes: Outcomes) -> None:
    """Keep one run's outcomes for ``main``. ``way``: kind of sandbox and mode of grading."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[name, task, passed, cause] for (name, task), (passed, cause) in outcomes.items()]
    (folder / f"{way}.json").write_text(json.dumps(rows))


def recorded(folder: Path) -> Recorded:
    """What ``record`` kept."""
    found: Recorded = {}
    for path in sorted(folder.glob("*.json")):
        for name, task, passed, cause in json.loads(path.read_text()):
            found.setdefault(path.stem, {}).setdefault(name, {})[task] = (passed, cause)
    return found


def page(found: Recorded) -> str:
    """The whole page."""
    own = _tries(found, lambda cheat: (OWN,))
    foreign = _tries(found, lambda cheat: tuple(cheat.foreign))
    seen = {cause for rows in found.values() for tasks in rows.values() for _, cause in tasks.values()}
    words = "".join(f"- `{cause}`: {meaning}\n" for cause, meaning in _CAUSES.items() if cause in seen)
    figures = (
        f"\n{len(CORPUS)} cheats in {len(found)} ways ({', '.join(found)}): on our own tasks "
        f"{sum(one is True for one in own)} of {len(own)} tries were forged, on foreign tasks "
        f"{sum(one is True for one in foreign)} of {len(foreign)}.\n"
    )
    parts = "".join(_part(found, title) for title in PLACES)
    tasks = "".join(f"- `{name}`: {text}\n" for name, text in TASKS.items())
    why = "".join(f"- {cheat.name}: {cheat.why}\n" for cheat in CORPUS if cheat.why)
    reasons = "\n## Why some get through on foreign tasks\n\n" + why
    return "".join((_HEAD, words, "\nThe tasks:\n\n", tasks, figures, parts, reasons))


def _tries(found: Recorded, tasks: Callable[[Cheat], tuple[str, ...]]) -> list[bool | None]:
    """What each try earned that was made."""
    return [rows[cheat.name][task][0] for rows in found.values() for cheat in CORPUS if cheat.name in rows
            for task in tasks(cheat)]  # fmt: skip


def _part(found: Recorded, title: str) -> str:
    heads = [f"{whose}, {mode}" for whose in ("Our own", "Foreign") for mode in MODES]
    lines = [f"\n## {title}\n", f"| Cheat | What it does | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for cheat in PLACES[title]:
        cells = [_cell(found, cheat.name, OWN, mode) for mode in MODES]
        for mode in MODES:
            others = {task: _cell(found, cheat.name, task, mode) for task in cheat.foreign}
            cells.append("; ".join(f"`{task}`: {cell}" for task, cell in others.items() if cell))
        lines.append(f"| {cheat.name} | {_plain(cheat.does)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(found: Recorded, name: str, task: str, mode: str) -> str:
    """One cause where all kinds of sandbox agree, else one each; nothing where it is not tried in a mode."""
    ways = {way.split()[0]: rows for way, rows in found.items() if way.endswith(mode) and name in rows}
    said = {backend: rows[name][task] for backend, rows in ways.items()}
    texts = {backend: "**passed**" if passed else cause for backend, (passed, cause) in said.items()}
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), "")
    return ", ".join(f"{text} ({backend})" for backend, text in texts.items())


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def names_on(text: str) -> list[str]:
    """The cheats that a page lists, in order."""
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    return [name for name in rows if name != "Cheat"]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(recorded(Path(sys.argv[1]))))
