"""``scripts/vocabulary [DATASET]…``: looks for task vocabulary in everything that runs or is said to a model."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hc_ray.tasks.vocabulary import Vocabulary, benchmark

ROOT = Path(__file__).parents[2]
SCANNED = ("hc_ray", "actors", "scripts", "configs", "cluster.yaml", "hatch_build.py", "pyproject.toml")
_LARGEST = 1 << 20
_OWN = 3
"""Files in which a word of one task stands before it is taken for the project's own."""


def text_of(path: Path) -> str | None:
    """A text file's content; None for what is large or no text."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def tasks_of(dataset: Path) -> dict[str, list[str]]:
    """Task name → its texts: instruction, tests, solution. The files of its environment are data, of any words."""
    found = {}
    for folder in sorted(path for path in dataset.iterdir() if (path / "instruction.md").is_file()):
        parts = [path for path in sorted(folder.rglob("*")) if not {"__pycache__", "environment"} & set(path.parts)]
        texts = [text_of(path) for path in parts]
        found[folder.name] = [text for text in texts if text is not None]
    return found


def vocabulary(datasets: Sequence[Path]) -> Vocabulary:
    """The vocabulary of all datasets together, and of the benchmark's names."""
    tasks: dict[str, list[str]] = {}
    for dataset in datasets:
        for name, texts in tasks_of(dataset).items():
            tasks.setdefault(name, []).extend(texts)
    return Vocabulary(tasks, benchmark())


def scanned(root: Path) -> Iterator[Path]:
    """Every file that may hold no task vocabulary: datasets and what a person chose to hold out are excepted."""
    excepted = tuple(root / "configs" / name for name in ("tasks", "holdouts"))
    for name in SCANNED:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if not any(map(path.is_relative_to, excepted)) and "__pycache__" not in path.parts:
                yield path


def faults(root: Path, known: Vocabulary) -> list[str]:
    """One line for each word found. A word that stands in several files is the project's own: it is by chance that only
    one task has it, and a rule for that task would stand in one place."""
    said = {path: known.found(f"{path.name}\n{text_of(path) or ''}") for path in scanned(root)}
    files = Counter(word for words in said.values() for word in words)
    return [
        f"{path.relative_to(root)}: {word!r} is a word of the task {task}"
        for path, words in said.items()
        for word, task in words.items()
        if files[word] < _OWN
    ]


def main(arguments: Sequence[str]) -> int:
    datasets = [path for path in sorted((ROOT / "configs" / "tasks").iterdir()) if path.is_dir()]
    found = faults(ROOT, vocabulary([*datasets, *map(Path, arguments)]))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
