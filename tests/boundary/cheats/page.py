"""The page docs/trust-cheats.md, made from what runs of the corpus recorded. Run by ``scripts/cheats-table``."""

import json
import sys
from pathlib import Path

from tests.boundary.cheats.cheat import OWN, TASKS
from tests.boundary.cheats.corpus import CORPUS, PLACES
from tests.boundary.cheats.trial import Outcomes, tries

Recorded = dict[str, dict[str, dict[str, tuple[bool | None, str]]]]
"""Kind of sandbox → cheat → task → (passed, cause)."""
_HEAD = """# Cheats tried and what they earned

Written by `scripts/cheats-table` from a run of `tests/boundary/test_cheats.py`; do not edit it by hand. Every cheat was
tried for real, with code that does not solve the task, in each kind of sandbox named, in isolated grading. A cell holds
the cause of the verdict; **passed** in bold is a forged reward. What the words mean:

"""
_CAUSES = {
    "failed": "the tests ran and gave a reward below 1",
    "tampered": "the submission changes what the tests stand on, and nothing was run",
    "submission_refused": "no honest difference looks like this, and nothing was run",
    "not_handed_in": "the solver's sandbox refuses to make a submission of it",
    "no_verdict": "no reward file was left",
    "empty_verdict": "the reward file was empty or no plain file",
    "malformed_verdict": "the reward file held no finite number",
    "timeout": "the tests ran past their time limit",
    "verifier_lost": "the verifier's process was killed by the candidate",
    "witness_disagrees": "a reward was written that the pytest sessions do not bear out",
    "witness_absent": "a reward was written, and no pytest session reported",
}


def record(folder: Path, backend: str, outcomes: Outcomes) -> None:
    """Keep one run's outcomes for ``main``."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[name, task, passed, cause] for (name, task), (passed, cause) in outcomes.items()]
    (folder / f"{backend}.json").write_text(json.dumps(rows))


def recorded(folder: Path) -> Recorded:
    """What ``record`` kept."""
    found: Recorded = {}
    for path in sorted(folder.glob("*.json")):
        for name, task, passed, cause in json.loads(path.read_text()):
            found.setdefault(path.stem, {}).setdefault(name, {})[task] = (passed, cause)
    return found


def page(found: Recorded) -> str:
    """The whole page."""
    backends = list(found)
    own = [found[backend][cheat.name][OWN][0] for backend in backends for cheat in CORPUS]
    foreign = [
        found[backend][cheat.name][task][0] for backend in backends for cheat in CORPUS for task in cheat.foreign
    ]
    seen = {cause for rows in found.values() for tasks in rows.values() for _, cause in tasks.values()}
    words = "".join(f"- `{cause}`: {meaning}\n" for cause, meaning in _CAUSES.items() if cause in seen)
    figures = (
        f"\n{len(CORPUS)} cheats in {len(backends)} kinds of sandbox ({', '.join(backends)}): on our own tasks "
        f"{sum(one is True for one in own)} of {len(own)} tries were forged, on foreign tasks "
        f"{sum(one is True for one in foreign)} of {len(foreign)}.\n"
    )
    parts = "".join(_part(found, title) for title in PLACES)
    return "".join((_HEAD, words, "\nThe tasks:\n\n", _tasks(), figures, parts, _reasons()))


def _tasks() -> str:
    return "".join(f"- `{name}`: {text}\n" for name, text in TASKS.items())


def _part(found: Recorded, title: str) -> str:
    lines = [f"\n## {title}\n", "| Cheat | What it does | Our own | Foreign |", "|---|---|---|---|"]
    for cheat in PLACES[title]:
        ours, *others = [_cell(found, cheat.name, task) for task in tries(cheat)]
        foreign = "; ".join(f"`{task}`: {cell}" for task, cell in zip(cheat.foreign, others, strict=True))
        lines.append(f"| {cheat.name} | {_plain(cheat.does)} | {ours} | {foreign} |")
    return "\n".join(lines) + "\n"


def _cell(found: Recorded, name: str, task: str) -> str:
    """One cause where all kinds of sandbox agree, else one each."""
    said = {backend: rows[name][task] for backend, rows in found.items()}
    texts = {backend: "**passed**" if passed else cause for backend, (passed, cause) in said.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} ({backend})" for backend, text in texts.items())


def _reasons() -> str:
    listed = [cheat for cheat in CORPUS if cheat.why]
    return "\n## Why some get through on foreign tasks\n\n" + "".join(f"- {one.name}: {one.why}\n" for one in listed)


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def names_on(text: str) -> list[str]:
    """The cheats that a page lists, in order."""
    rows = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines() if line.startswith("| ")]
    return [name for name in rows if name != "Cheat"]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(recorded(Path(sys.argv[1]))))
