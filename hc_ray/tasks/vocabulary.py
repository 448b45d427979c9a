"""Finds words that belong to a single task. Code, prompts, skills, hints and configs must not use them, since help for
one particular task is not a method.

A word is distinctive of a task if it has at least six letters or four digits, occurs only in that task of its dataset,
and is not ordinary. Ordinary words are those of any programmer: the word or its stem occurs in the source of Python's
standard library, comments and docstrings included (some 17,000 words), or is a C name.

``benchmark.xz`` contains the names of the 89 tasks of Terminal-Bench 2 (https://www.tbench.ai), which are forbidden
with any dataset; it is compressed so that no name occurs in the tree."""

import lzma
import re
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

_WORD = re.compile(r"[a-z]{6,}")
_STEM = re.compile(r"[a-z]{3,}")
_NUMBER = re.compile(r"(?<!\d)\d{4,}(?!\d)")
_ESCAPE = re.compile(r"\\[abfnrtv]")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"), ("er", ""),
            ("er", "e"), ("ers", ""), ("ers", "e"), ("ly", ""), ("our", "or"), ("ours", "or"), ("ise", "ize"),
            ("ization", "ize"), ("isation", "ize"), ("ogue", "og"), ("ogues", "og"))  # fmt: skip
_EVERYDAY = frozenset({"8080", "1777", "alpine", "bearer", "telemetry", "temperature", "temperatures"})
"""Further ordinary words that the standard library lacks: the port of test web servers, the tag of images without the
GNU C library, terms of sampling."""
_GONE = (
    *("aifc", "asynchat", "asyncore", "cgi", "cgitb", "chunk", "crypt", "imghdr", "imp", "mailcap", "nntplib", "pipes"),
    *("smtpd", "sndhdr", "sunau", "telnetlib", "uu", "xdrlib"),
)
_NOT_EVERYWHERE = frozenset(
    {
        *("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py"),
        *("lib2to3", "distutils", "ensurepip", "msilib", *(f"{name}.py" for name in _GONE)),
    }
)
"""Parts of the standard library that distributions package separately, or that were removed after Python 3.11.
Excluded, since a word should be ordinary on every machine or on none."""
_C_LIBRARY = frozenset((Path(__file__).parent / "c_library.txt").read_text().split())
"""Names of C's standard library and its headers."""


def words_of(text: str, word: re.Pattern[str] = _WORD) -> frozenset[str]:
    """The lower-case words of at least six letters (identifiers are split) and numbers of at least four digits."""
    text = _ESCAPE.sub(" ", text)
    return frozenset(word.findall(_HUMP.sub(" ", text).lower())) | frozenset(_NUMBER.findall(text))


@cache
def benchmark() -> Mapping[str, tuple[str, ...]]:
    """The tasks of Terminal-Bench 2, by name only."""
    return dict.fromkeys(lzma.decompress((Path(__file__).parent / "benchmark.xz").read_bytes()).decode().split(), ())


@cache
def standard_library() -> frozenset[str]:
    """All words of at least three letters, and all numbers, in the source of Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    found: set[str] = set()
    for path in root.rglob("*.py"):
        if not _NOT_EVERYWHERE & set(path.relative_to(root).parts) and not path.name.startswith("_sysconfigdata"):
            found |= words_of(path.read_text(encoding="utf-8", errors="replace"), _STEM)
    return frozenset(found)


def is_ordinary(word: str) -> bool:
    """Whether a word does not point to a task."""
    if word in _EVERYDAY or word in _C_LIBRARY or word in standard_library():
        return True
    if word.isdigit():
        return word.endswith("00")  # round numbers are ordinary
    stems = [word.removesuffix(end) + put for end, put in _ENDINGS if word.endswith(end)]
    stems += [stem[:-1] for stem in stems if len(stem) > 3 and stem[-1] == stem[-2]]  # planned → plan
    return any(stem in standard_library() for stem in stems)


def distinctive(tasks: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Distinctive word → its task. ``tasks``: name → its texts; the name counts as one of them."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in tasks.items():
        for text in (name, *texts):
            for word in words_of(text):
                held[word].add(name)
    return {word: next(iter(names)) for word, names in held.items() if len(names) == 1 and not is_ordinary(word)}


class Vocabulary:
    """The words that no text outside the datasets may use. A word that is distinctive within its dataset counts,
    whatever the other datasets contain."""

    def __init__(self, *datasets: Mapping[str, Iterable[str]]) -> None:
        self.words = {word: name for tasks in reversed(datasets) for word, name in distinctive(tasks).items()}
        names = sorted(name for name in {*chain(*datasets)} if not (name.isalpha() and is_ordinary(name.lower())))
        either = "|".join(re.escape(name).replace(r"\-", "[-_]" if self._own(name) else "-") for name in names)
        self._names = re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])", re.IGNORECASE) if names else None

    def _own(self, name: str) -> bool:
        """Whether a name contains a distinctive word, so that it also counts with underscores; ``full_name`` is
        ordinary."""
        return any(word in self.words for word in words_of(name))

    def found(self, text: str) -> dict[str, str]:
        """Each name or distinctive word in ``text`` → its task, in order."""
        said = {word: self.words[word] for word in words_of(text) if word in self.words}
        if self._names is not None:
            said |= {one.lower(): one.lower().replace("_", "-") for one in self._names.findall(text)}
        return dict(sorted(said.items()))
