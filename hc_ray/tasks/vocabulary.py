"""What words belong to one task alone, and whether a text uses them. Code, prompts, skills, hints and configs must not:
what helps with one task by name is no method.

A word is a task's own (distinctive) when it has at least six letters, or four digits, stands in that task only of its
dataset, and is not ordinary. Ordinary is a word that programmers use anyway: itself or its stem stands in the source of
Python's standard library, comments and docstrings included (some 17,000 words), or it is a name of C's.

``benchmark.xz`` holds the names of the 89 tasks of Terminal-Bench 2 (https://www.tbench.ai), of which nothing speaks,
whatever dataset is at hand: packed so that no name stands in the tree."""

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
"""What the standard library lacks and everybody here knows: the port of web servers that are tried out, the tag of
images without the GNU C library, how a model is sampled."""
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
"""Parts of the standard library that distributions pack apart, or that left it after Python 3.11: words should be
ordinary on every machine or on none."""
_C_LIBRARY = frozenset((Path(__file__).parent / "c_library.txt").read_text().split())
"""Names of the standard library of C and of its headers."""


def words_of(text: str, word: re.Pattern[str] = _WORD) -> frozenset[str]:
    """The words of at least six letters (small; identifiers taken apart) and the numbers of at least four digits."""
    text = _ESCAPE.sub(" ", text)
    return frozenset(word.findall(_HUMP.sub(" ", text).lower())) | frozenset(_NUMBER.findall(text))


@cache
def benchmark() -> Mapping[str, tuple[str, ...]]:
    """The tasks of Terminal-Bench 2, of which no more than the names is known here."""
    return dict.fromkeys(lzma.decompress((Path(__file__).parent / "benchmark.xz").read_bytes()).decode().split(), ())


@cache
def standard_library() -> frozenset[str]:
    """Every word of at least three letters, and every number, in the source of Python's standard library."""
    root = Path(sysconfig.get_path("stdlib"))
    found: set[str] = set()
    for path in root.rglob("*.py"):
        if not _NOT_EVERYWHERE & set(path.relative_to(root).parts) and not path.name.startswith("_sysconfigdata"):
            found |= words_of(path.read_text(encoding="utf-8", errors="replace"), _STEM)
    return frozenset(found)


def is_ordinary(word: str) -> bool:
    """Whether a word says nothing of where it comes from."""
    if word in _EVERYDAY or word in _C_LIBRARY or word in standard_library():
        return True
    if word.isdigit():
        return word.endswith("00")  # a round number is anybody's
    stems = [word.removesuffix(end) + put for end, put in _ENDINGS if word.endswith(end)]
    stems += [stem[:-1] for stem in stems if len(stem) > 3 and stem[-1] == stem[-2]]  # planned → plan
    return any(stem in standard_library() for stem in stems)


def distinctive(tasks: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Word → the one task that it stands in. ``tasks``: name → its texts; the name is one of them."""
    held: defaultdict[str, set[str]] = defaultdict(set)
    for name, texts in tasks.items():
        for text in (name, *texts):
            for word in words_of(text):
                held[word].add(name)
    return {word: next(iter(names)) for word, names in held.items() if len(names) == 1 and not is_ordinary(word)}


class Vocabulary:
    """What no text outside the datasets may say. A word that stands in one task alone of a dataset counts, whatever the
    other datasets hold."""

    def __init__(self, *datasets: Mapping[str, Iterable[str]]) -> None:
        self.words = {word: name for tasks in reversed(datasets) for word, name in distinctive(tasks).items()}
        names = sorted(name for name in {*chain(*datasets)} if not (name.isalpha() and is_ordinary(name.lower())))
        either = "|".join(re.escape(name).replace(r"\-", "[-_]" if self._own(name) else "-") for name in names)
        self._names = re.compile(rf"(?<![A-Za-z0-9])(?:{either})(?![A-Za-z0-9])", re.IGNORECASE) if names else None

    def _own(self, name: str) -> bool:
        """Whether a name has a word of its own: then it counts with underscores too; ``full_name`` is anybody's."""
        return any(word in self.words for word in words_of(name))

    def found(self, text: str) -> dict[str, str]:
        """Each name or distinctive word that stands in ``text`` → the task that it is of, in order."""
        said = {word: self.words[word] for word in words_of(text) if word in self.words}
        if self._names is not None:
            said |= {one.lower(): one.lower().replace("_", "-") for one in self._names.findall(text)}
        return dict(sorted(said.items()))
