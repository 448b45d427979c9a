"""What a command is given when it is tried: words, numbers, and files and folders that the test brings with it. Which
of these an argument is, the instruction's words say; what the files hold is the same for every task."""

import re
from collections.abc import Sequence
from typing import Literal

from hc_ray.solve.inputs import COMMAND_ARGUMENTS, Range, texts
from hc_ray.solve.target import reads_stdin, takes_arguments
from hc_ray.suite import FileView
from hc_ray.value import Value

ArgumentKind = Literal["file", "folder", "number", "text"]


class Given(Value):
    """What one run of a command is given."""

    arguments: str = ""
    stdin: str = ""
    files: dict[str, str] = {}


_FILES: dict[Range, tuple[str, ...]] = {
    "ordinary": ("one\ntwo\nthree\n", "b 2\na 1\nc 3\n", "the cat\nand the dog\n\nend\n"),
    "boundary": ("", "single\n", "no line break at the end"),
    "edge": ("  spaces  \n\ttab\n", 'same\nsame\nÄpfel,"x, y"\n'),
}
_FOLDERS: dict[Range, tuple[dict[str, str], ...]] = {
    "ordinary": (
        {"small.txt": "x\n", "large.txt": "x" * 300 + "\n", "middle.dat": "y" * 40},
        {"a": "1" * 9, "b": "2" * 90, "c": "3"},
    ),
    "boundary": ({"only.txt": "1\n"}, {"inner/deep.txt": "z" * 500}),
    "edge": ({"two words.txt": "x" * 50, "short": "y"}, {"big": "x" * 20, "inner/bigger": "y" * 900, ".hid": "z"}),
}
_ARGUMENT = re.compile(
    r"(?:takes|given|with|gets|accepts|receives) (?:an?|the|one|two) (?P<noun>[\w -]{2,30}?)(?: \([^)]*\))? "
    r"as (?:its|the|an?)(?: \w+)? arguments?", re.IGNORECASE,
)  # fmt: skip
_NOUNS: tuple[tuple[ArgumentKind, str], ...] = (
    ("folder", r"\b(?:director(?:y|ies)|folders?)\b"),
    ("file", r"\b(?:files?|file ?names?|paths?)\b"),
    ("number", r"\b(?:numbers?|integers?|count|column|port|size)\b"),
)
_HERE = re.compile(r"\b(?:current|working|same) (?:directory|folder)\b", re.IGNORECASE)


def argument_kinds(instruction: str) -> tuple[ArgumentKind, ...]:
    """The kind of each argument that the instruction names; numbers where it says that all are; else empty."""
    found: list[ArgumentKind] = []
    for match in _ARGUMENT.finditer(instruction):
        found.append(next((kind for kind, words in _NOUNS if re.search(words, match["noun"], re.I)), "text"))
    if not found and re.search(r"\ball (?:its|the) arguments, which are (?:whole )?(?:numbers|integers)", instruction):
        return ("number", "number")
    return tuple(found)


def works_here(instruction: str) -> tuple[str, ...]:
    """Suffixes of the files that the instruction says are worked on in the current directory; empty where none are."""
    if not _HERE.search(instruction):
        return ()
    return tuple(dict.fromkeys(re.findall(r"[`\"](\.\w{1,5})[`\"]", instruction)))


def given(instruction: str, reach: Range, count: int, files: Sequence[FileView] = ()) -> tuple[Given, ...]:
    """Up to ``count`` different things to give a command: real files of the workspace first, then made ones."""
    kinds, suffixes = argument_kinds(instruction), works_here(instruction)
    reads, takes = reads_stdin(instruction), takes_arguments(instruction) or bool(kinds)
    made: list[Given] = []
    real = [view.path for view in files if view.lines is not None and not view.path.startswith("/")]
    for turn in range(count * 2):
        stdin = texts(instruction)[reach][turn % len(texts(instruction)[reach])] if reads else ""
        brought: dict[str, str] = {}
        words = []
        for place, kind in enumerate(kinds):
            if kind == "file" and reach == "ordinary" and turn < len(real):
                words.append(real[turn])
            else:
                word, more = _argument(kind, reach, turn, place)
                words.append(word)
                brought.update(more)
        if takes and not kinds:
            words = [COMMAND_ARGUMENTS[reach][turn % len(COMMAND_ARGUMENTS[reach])]]
        if suffixes:
            brought.update(_here(suffixes, reach, turn))
        one = Given(arguments=" ".join(words), stdin=stdin, files=brought)
        if one not in made and (reads or takes or suffixes or not made):
            made.append(one)
    return tuple(made[:count])


def _argument(kind: ArgumentKind, reach: Range, turn: int, place: int) -> tuple[str, dict[str, str]]:
    """One argument, and the files that it needs."""
    if kind == "file":
        name = "my file.txt" if reach == "edge" and turn % 2 else f"sample{place or ''}.txt"
        return f"'{name}'" if " " in name else name, {name: _FILES[reach][turn % len(_FILES[reach])]}
    if kind == "folder":
        held = _FOLDERS[reach][turn % len(_FOLDERS[reach])]
        return "box", {f"box/{path}": text for path, text in held.items()}
    if kind == "number":
        return {"ordinary": ("2", "1", "3"), "boundary": ("0", "1", "1"), "edge": ("-1", "100", "7")}[reach][
            turn % 3
        ], {}
    words = {"ordinary": ("Alice", "bob", "x1"), "boundary": ("''", "a", "A"), "edge": ("'two words'", "'a*b'", "Zoë")}
    return words[reach][turn % 3], {}


def _here(suffixes: Sequence[str], reach: Range, turn: int) -> dict[str, str]:
    """Files in the current directory: some of every suffix, some of none; at the edge a name that is taken already."""
    first = suffixes[0]
    if reach == "boundary":
        return {"other.dat": "0\n"} if turn % 2 == 0 else {f"only{first}": ""}
    brought = {f"one{first}": "1\n", f"two{first}": "2\n", "other.dat": "0\n"}
    if reach == "edge":
        brought = {f"two words{first}": "1\n", f"x{first}{first}": "2\n"}
        brought |= {f"taken{suffix}": f"{suffix}\n" for suffix in suffixes}
    if turn % 2:
        brought[f"third{first}"] = "3\n"
    return brought


def content_for(argument: str) -> dict[str, str]:
    """A file of the name that an example gives, so that the example can be tried."""
    return {argument: _FILES["ordinary"][0]} if re.fullmatch(r"[\w-]+\.\w{1,5}", argument) else {}
