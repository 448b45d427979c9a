"""Answers in a frame: the model completes one Python function (or one regular expression), and what surrounds it does
the rest. Small models that cannot write a program, a shell script or a table can often write the function that matters
(program-aided answers, Gao et al. 2023).

- data: a function from the contents of the input files to that of the file; the whole is run, what it writes is the
  candidate (``Framed.program``);
- a Python or shell script: a function from arguments and standard input to what is printed; the file is the function in
  its frame, for a shell script as a command of ``python3``;
- a pattern: what ``re.fullmatch`` is given."""

import ast
import builtins
import json
import keyword
import posixpath
import re
from collections.abc import Mapping, Sequence

from hc_ray.profile import Profile
from hc_ray.prompt import Completion, Malformed, Prompt
from hc_ray.solve.deliverable import Deliverable
from hc_ray.solve.frames import IMPORTS, LISTS, NUMBERS, PRINTS, TABLES, TYPED, WRITES
from hc_ray.solve.trim import parses, trim_python
from hc_ray.value import Value

SECONDS = 10.0
"""How long a program may run."""
INTERPRETER = "python3"
"""What a framed shell script needs in the image."""
_INPUTS = 3
_READS = {
    "json": ("json.load(file)", "the parsed content of"),
    "csv": ("_rows(file)", "the rows, a list of dictionaries, of"),
    "": ("_lines(file)", "the list of lines of"),
}
"""Suffix of an input → how it is read, and what that gives. The empty one is for all others."""
_PATTERN = 'import re\n\n\ndef matches(text):\n    return re.fullmatch(r"'
_ALL_NUMBERS = re.compile(r"(?:\s*[+-]?\d*\.?\d+\s*(?:\n|\Z))+")
_OF_NUMBERS = re.compile(r"\b(?:numbers?|integers?|digits|sum)\b", re.I)
_ARGUMENTS = re.compile(r"\b(?:arguments?|options?|parameters?)\b", re.I)
_INPUT = re.compile(r"\b(?:standard input|stdin)\b", re.I)
_NO_PYTHON = re.compile(
    r"\b(?:posix|busybox|pure (?:shell|sh|bash))\b|\b(?:without|no|not|never|only)\b[^.]*\b(?:python|interpreters?)\b",
    re.I,
)


class Framed(Value):
    """What an answer came to."""

    function: str
    """What the model wrote."""
    files: dict[str, str] = {}
    program: str | None = None
    """Of data: what writes the files when it is run."""


def suits(instruction: str, deliverable: Deliverable) -> bool:
    """Whether one file is asked for that a frame can hold."""
    (file, *others) = deliverable.files
    if others or (deliverable.kind == "shell" and _NO_PYTHON.search(instruction)):
        return False
    if deliverable.kind == "output":
        return file.language in ("json", "csv", "text")
    return deliverable.kind in ("script", "shell", "pattern")


def prefix(
    instruction: str, deliverable: Deliverable, advice: Sequence[str], inputs: Mapping[str, str]
) -> tuple[str, str]:
    """What is asked, as comments, and the beginning that the answer continues. ``inputs``: what is known of the files'
    contents."""
    name, taken = _name(deliverable), _parameters(instruction, deliverable)
    if deliverable.kind == "pattern":
        told, head = [], _PATTERN
    else:
        told = [_told(deliverable, parameter, path, inputs) for parameter, path in taken.items()]
        if deliverable.kind == "output":
            told.append(f"`{name}` returns the content of `{deliverable.main.path}`.")
        else:
            told.append(f"`{name}` is the same in Python: it returns what is printed.")
        # No line break at the end, as in the completion form.
        head = f"def {name}({', '.join(taken)}):"
    spoken = "\n\n".join([instruction, *advice, *(["\n".join(told)] if told else [])])
    return "".join(f"# {line}".rstrip() + "\n" for line in spoken.split("\n")), head


def stops(deliverable: Deliverable, profile: Profile) -> tuple[str, ...]:
    """Those of functions; of a pattern the end of its string."""
    if deliverable.kind == "pattern":
        return ('"', "\n")
    return tuple(dict.fromkeys(("\n```", *profile.stop.get("completion", ()))))


def read(completion: Completion, prompt: Prompt, instruction: str, deliverable: Deliverable) -> Framed | Malformed:
    """The answer in its frame."""
    if completion.finish_reason == "context":
        return Malformed(reason="the prompt does not fit the model's context", text="")
    path = deliverable.main.path
    if deliverable.kind == "pattern":
        pattern = completion.text.split('"')[0].split("\n")[0]
        if not pattern:
            return Malformed(reason="the answer is empty", text="")
        return Framed(function=pattern, files={path: pattern + "\n"})
    function = _defined(trim_python(prompt.context + completion.text.rstrip("\n") + "\n"))
    if not function:
        return Malformed(reason="the answer holds no function", text=completion.text[:2000])
    taken = _parameters(instruction, deliverable)
    if deliverable.kind == "output":
        return Framed(function=function, program=_program(function, deliverable, taken))
    script = _script(function, instruction, deliverable, taken)
    if deliverable.kind == "shell":
        quoted = script.replace("'", "'\\''")
        said = "# A program with this script's arguments and standard input."
        script = f"#!/bin/sh\n{said}\nexec {INTERPRETER} -c '{quoted}' \"$@\"\n"
    return Framed(function=function, files={path: script})


def _told(deliverable: Deliverable, parameter: str, path: str, inputs: Mapping[str, str]) -> str:
    if deliverable.kind != "output":
        return f"`{parameter}` is {path}."
    reading = _reading(path)
    numbers = reading is _READS[""] and _ALL_NUMBERS.fullmatch(inputs.get(path, ""))
    return f"`{parameter}` is {'the list of numbers in' if numbers else reading[1]} `{path}`."


def _program(function: str, deliverable: Deliverable, taken: Mapping[str, str]) -> str:
    loads = "".join(
        f"with open({json.dumps(path)}, newline='') as file:\n    {name} = {_reading(path)[0]}\n"
        for name, path in taken.items()
    )
    path = json.dumps(deliverable.main.path)
    value = f"_value = {_name(deliverable)}({', '.join(taken)})\n"
    # Written only where there is a value: an answer that returns nothing is a fault, and no file that says None.
    none = "if _value is None:\n    raise SystemExit('the function returned nothing')\n"
    parts = (IMPORTS, f"PATH = {path}\n", function + "\n", NUMBERS, TYPED, TABLES, LISTS, WRITES)
    return "\n\n".join(
        [*parts, loads + value + none + "with open(PATH, 'w', newline='') as file:\n    file.write(_text(_value))\n"]
    )


def _script(function: str, instruction: str, deliverable: Deliverable, taken: Mapping[str, str]) -> str:
    numbers = _OF_NUMBERS.search(instruction) is not None
    given = {"arguments": "_typed(sys.argv[1:])" if numbers else "sys.argv[1:]", "text": "sys.stdin.read()"}
    call = f"_print({_name(deliverable)}({', '.join(given[name] for name in taken)}))\n"
    return "\n\n".join([IMPORTS, function + "\n", *((NUMBERS, TYPED) if "_typed" in call else ()), LISTS, PRINTS, call])


def _defined(text: str) -> str:
    """What a text defines and imports; a call that it tries itself with may hide the function. Empty for no Python."""
    if not parses(text):
        return ""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    kept = [ast.get_source_segment(text, node) or "" for node in ast.parse(text).body if isinstance(node, kinds)]
    return "\n\n".join(kept)


def _name(deliverable: Deliverable) -> str:
    """With the suffix: a built-in's name alone would hide the built-in."""
    path = deliverable.main.path
    return f"{_identifier(path, 'answer')}_{posixpath.basename(path).rpartition('.')[2].lower()}"


def _parameters(instruction: str, deliverable: Deliverable) -> dict[str, str]:
    """Parameter → the input file that it stands for; of a script, what it is."""
    if deliverable.kind != "output":
        told = {}
        if _ARGUMENTS.search(instruction):
            told["arguments"] = "the list of the command-line arguments"
        if _INPUT.search(instruction):
            told["text"] = "the standard input, a string"
        return told
    found: dict[str, str] = {}
    for i, path in enumerate(deliverable.inputs[:_INPUTS], start=1):
        name = _identifier(path, f"input_{i}")
        found[name if name not in found and not hasattr(builtins, name) else f"{name}_{i}"] = path
    return found


def _identifier(path: str, otherwise: str) -> str:
    stem = re.sub(r"\W+", "_", posixpath.basename(path).partition(".")[0]).strip("_").lower()
    return stem if stem.isidentifier() and stem.isascii() and not keyword.iskeyword(stem) else otherwise


def _reading(path: str) -> tuple[str, str]:
    return _READS.get(posixpath.basename(path).rpartition(".")[2].lower(), _READS[""])
