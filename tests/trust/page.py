"""Writes docs/trust.md: the words of ``threats.md``, each lock with the tests that prove it and how they ended in this
run, and the figures that the tests measured; beside it trust-cheats.md. Run by ``scripts/trust-page``.

The locks stand in ``locks.yaml``: a name, what it does, and its tests as ``file::test`` (all parameters of a test
count). A test that the run did not see, or that failed, is shown as such: the page cannot be better than the run."""

import datetime
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import yaml

from tests.boundary.cheats import page as cheats

HERE = Path(__file__).parent
LOCKS = HERE / "locks.yaml"
THREATS = HERE / "threats.md"
Outcomes = Mapping[str, Counter[str]]
"""``file::test`` → how its cases ended (passed, failed, skipped)."""


def load_locks() -> list[dict[str, Any]]:
    """The locks, in the order of the page: ``name``, ``does``, ``tests``."""
    return yaml.safe_load(LOCKS.read_text())


def named_tests() -> list[str]:
    """Every test that a lock names, as ``tests/…/file.py::test``."""
    return sorted({test for lock in load_locks() for test in lock["tests"]})


def outcomes_of(report: Path) -> dict[str, Counter[str]]:
    """How the tests of a run ended, from pytest's JUnit report."""
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        name = case.get("name", "").partition("[")[0]
        ended = next((tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None), "passed")
        found.setdefault(f"{file}::{name}", Counter())["failed" if ended in ("failure", "error") else ended] += 1
    return found


def locks_table(outcomes: Outcomes) -> str:
    """One row a lock, with how its tests ended."""
    lines = ["| Lock | What it does | Proven by | In this run |", "|---|---|---|---|"]
    for lock in load_locks():
        total: Counter[str] = Counter()
        for test in lock["tests"]:
            total += outcomes.get(test) or Counter({"not run": 1})
        tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in lock["tests"])
        ended = ", ".join(f"{count} {word}" for word, count in sorted(total.items()))
        lines.append(f"| {lock['name']} | {lock['does']} | {tests} | {ended} |")
    return "\n".join(lines) + "\n"


def figures_table(figures: Sequence[Mapping[str, Any]]) -> str:
    """What the tests measured: one table for each subject, its columns those that its rows have."""
    subjects: dict[str, list[Mapping[str, Any]]] = {}
    for figure in figures:
        for subject, row in figure.items():
            subjects.setdefault(subject, []).append(row)
    parts = []
    for subject, rows in subjects.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        parts.append(f"### {subject.replace('_', ' ').capitalize()}\n")
        parts.append("| " + " | ".join(column.replace("_", " ") for column in columns) + " |")
        parts.append("|" + "---|" * len(columns))
        parts += ["| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in rows]
        parts.append("")
    return "\n".join(parts)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def render(outcomes: Outcomes, figures: Sequence[Mapping[str, Any]], day: str) -> str:
    """The whole page."""
    seen: Counter[str] = Counter()
    for test in named_tests():
        seen += outcomes.get(test) or Counter({"not run": 1})
    run = f"Run of {day}: " + ", ".join(f"{count} {word}" for word, count in sorted(seen.items())) + "."
    text = THREATS.read_text()
    for mark, part in (
        ("<!-- run -->", run),
        ("<!-- locks -->", locks_table(outcomes)),
        ("<!-- figures -->", figures_table(figures)),
    ):
        if mark not in text:
            raise ValueError(f"{THREATS.name} has no place for {mark}")
        text = text.replace(mark, part.strip())
    return text


def main(record: Path, target: Path) -> None:
    """``record`` holds a folder for each file of tests that was run: ``junit.xml``, ``ended`` (the commit), and where
    the tests measured something ``figures.jsonl`` and ``cheats/``."""
    outcomes: dict[str, Counter[str]] = {}
    figures: list[Any] = []
    tried: cheats.Recorded = {}
    commits = set()
    for ended in sorted(record.glob("*/ended")):
        part = ended.parent
        outcomes.update(outcomes_of(part / "junit.xml"))
        if (part / "figures.jsonl").is_file():
            lines = (part / "figures.jsonl").read_text().splitlines()
            figures += [json.loads(line) for line in lines if line.strip()]
        if (part / "cheats").is_dir():
            tried.update(cheats.recorded(part / "cheats"))
        commits.add(ended.read_text().strip())
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    target.write_text(render(outcomes, figures, f"{day} at {', '.join(sorted(commits))}"))
    target.with_name("trust-cheats.md").write_text(cheats.page(tried))


if __name__ == "__main__":
    if sys.argv[1] == "tests":
        print("\n".join(named_tests()))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
