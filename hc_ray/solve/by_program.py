"""Answers by program (program-aided answers, Gao et al. 2023): where one data file is asked for, the model writes a
Python function from the content of the input files to that of the file; what surrounds it reads the ones and writes the
other. A small model that cannot sort or add can often write the function that does."""

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
from hc_ray.solve.trim import parses, trim_python

SECONDS = 10.0
"""How long a program may run."""
_INPUTS = 3
_READS = {
    "json": ("json.load(file)", "the parsed content of"),
    "csv": ("_rows(file)", "the rows, a list of dictionaries, of"),
    "": ("_lines(file)", "the list of lines of"),
}
"""Suffix of an input → how it is read, and what that gives. The empty one is for all others."""
_NUMBERS = re.compile(r"(?:\s*[+-]?\d*\.?\d+\s*(?:\n|\Z))+")
_AROUND = """
class _Number(float):
    # A number that is written as it was read.
    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self):
        return self.text

    __repr__ = __str__


def _typed(column):
    # A column of numbers is one of numbers: small models write as if it were.
    known = [text.strip() for text in column if text and text.strip()]
    if known and all(re.fullmatch("-?(0|[1-9][0-9]*)", text) for text in known):
        return [int(text) if text and text.strip() else "" for text in column]
    if known and all(re.fullmatch("[+-]?[0-9]*[.]?[0-9]+", text) for text in known):
        return [_Number(text.strip()) if text and text.strip() else "" for text in column]
    return column


def _lines(file):
    lines = file.read().splitlines()
    typed = _typed(lines)
    return lines if typed is lines else [number for number in typed if number != ""]


def _rows(file):
    reader = csv.DictReader(file)
    rows = list(reader)
    for name in reader.fieldnames or ():
        for row, value in zip(rows, _typed([row[name] for row in rows])):
            row[name] = value
    return rows


def _text(value):
    if isinstance(value, str):
        return value if value.endswith("\\n") else value + "\\n"
    if PATH.endswith(".json"):
        return json.dumps(value, indent=2) + "\\n"
    rows = list(value) if isinstance(value, (list, tuple)) else [value]
    if not PATH.endswith(".csv"):
        return "".join(f"{row}\\n" for row in rows)
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\\n")
    if rows and isinstance(rows[0], dict):
        rows = [list(rows[0])] + [list(row.values()) for row in rows]
    for row in rows:
        cells = row.split(",") if isinstance(row, str) else row if isinstance(row, (list, tuple)) else [row]
        writer.writerow([str(cell) for cell in cells])
    return held.getvalue()
"""


def suits(deliverable: Deliverable) -> bool:
    """Whether what is asked for is one data file."""
    (file, *others) = deliverable.files
    return deliverable.kind == "output" and not others and file.language in ("json", "csv", "text")


def prefix(
    instruction: str, deliverable: Deliverable, advice: Sequence[str], inputs: Mapping[str, str]
) -> tuple[str, str]:
    """What is asked, as comments, and the head of the function that the answer continues. ``inputs``: what is known of
    the files' contents."""
    taken = _parameters(deliverable)
    told = []
    for name, path in taken.items():
        numbers = _NUMBERS.fullmatch(inputs.get(path, "")) and _reading(path) == _READS[""]
        told.append(f"`{name}` is {'the list of numbers in' if numbers else _reading(path)[1]} `{path}`.")
    told.append(f"`{_name(deliverable)}` returns the content of `{deliverable.main.path}`.")
    spoken = "\n\n".join([instruction, *advice, "\n".join(told)])
    asked = "".join(f"# {line}".rstrip() + "\n" for line in spoken.split("\n"))
    # No line break at the end, as in the completion form.
    return asked, f"def {_name(deliverable)}({', '.join(taken)}):"


def stops(profile: Profile) -> tuple[str, ...]:
    """Those of functions."""
    return tuple(dict.fromkeys(("\n```", *profile.stop.get("completion", ()))))


def read(completion: Completion, prompt: Prompt, deliverable: Deliverable) -> str | Malformed:
    """The whole program of an answer: inputs read, the function, its value written."""
    if completion.finish_reason == "context":
        return Malformed(reason="the prompt does not fit the model's context", text="")
    function = _defined(trim_python(prompt.context + completion.text.rstrip("\n") + "\n"))
    if not function:
        return Malformed(reason="the answer holds no function", text=completion.text[:2000])
    taken = _parameters(deliverable)
    path = json.dumps(deliverable.main.path)
    loads = "".join(
        f"with open({json.dumps(path)}, newline='') as file:\n    {name} = {_reading(path)[0]}\n"
        for name, path in taken.items()
    )
    value = f"_value = {_name(deliverable)}({', '.join(taken)})\n"
    writes = "with open(PATH, 'w', newline='') as file:\n    file.write(_text(_value))\n"
    # Written only where there is a value: an answer that returns nothing is a fault, and no file that says None.
    none = "if _value is None:\n    raise SystemExit('the function returned nothing')\n"
    head = "import collections\nimport csv\nimport io\nimport json\nimport math\nimport re\n\n"
    return f"{head}PATH = {path}\n\n\n{function}\n{_AROUND}\n\n{loads}{value}{none}{writes}"


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


def _parameters(deliverable: Deliverable) -> dict[str, str]:
    """Parameter → the input file that it stands for."""
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
