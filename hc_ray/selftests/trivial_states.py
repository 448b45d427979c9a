"""Trivial states of the workspace, which show no knowledge of the task: every path that a suite names and the
environment lacks is created empty, as a constant, or with the instruction's literals. A test that such a state passes
cannot tell right from wrong."""

import ast
import posixpath
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from hc_ray.domain.fork_steps import Exec
from hc_ray.domain.ports import ExecResult
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.task import named_in_tmp
from hc_ray.spec.files import without_addresses
from hc_ray.spec.markdown import blocks
from hc_ray.spec.spec import Spec

EMPTY, CONSTANT, PARROT = "empty", "constant", "parrot"
_MOST = 40
_PATH = re.compile(r"[\w.@+~-]*(?:/[\w.@+~-]+)*/?[\w@+~-]+\.[A-Za-z]\w{0,7}|/[\w.@+~-]+(?:/[\w.@+~-]+)+")
_SYSTEM = ("/bin/", "/usr/", "/dev/", "/proc/", "/sys/", "/tmp/", "/lib")
_CONSTANTS = {".json": "{}\n", ".csv": "a,b\n1,2\n", ".py": "import sys\nsys.exit(0)\n", ".html": "<html></html>\n",
              ".xml": "<a/>\n", ".yaml": "a: 1\n", ".yml": "a: 1\n", ".toml": "a = 1\n", ".js": "process.exit(0);\n",
              ".c": "int main(void) { return 0; }\n", ".txt": "0\n", ".md": "0\n", ".log": "0\n"}  # fmt: skip
_STUB = "#!/bin/sh\nexit 0\n"


def named_paths(spec: Spec, tests: Sequence[SelfTest]) -> tuple[str, ...]:
    """Absolute paths that the suite or the instruction names, without system programs and folders."""
    texts = [file.path for file in spec.files]
    for test in tests:
        if test.subject.kind != "check":
            texts += [test.subject.path] if test.subject.path else []
            continue
        for node in ast.walk(ast.parse(test.input)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
                texts += _PATH.findall(without_addresses(node.value))
    paths = (posixpath.normpath(posixpath.join(spec.workdir, text)) for text in texts)
    own = named_in_tmp(spec.instruction)
    return tuple(dict.fromkeys(path for path in paths if path in own or not path.startswith(_SYSTEM)))[:_MOST]


async def missing(run: Callable[[Exec], Awaitable[ExecResult]], paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that do not exist. ``run`` executes commands in the environment."""
    if not paths:
        return ()
    script = 'for path; do [ -e "$path" ] || printf "%s\\n" "$path"; done'
    seen = await run(Exec(command=("sh", "-c", script, "sh", *paths), timeout=20.0))
    return tuple(seen.stdout.decode("utf-8", "replace").splitlines())


def trivial_states(spec: Spec, paths: Sequence[str], tests: Sequence[SelfTest] = ()) -> Mapping[str, Mapping[str, str]]:
    """Name of a state → its files, with relative paths in the workdir. ``paths``: those that the environment lacks;
    empty gives no states. ``tests``: functions that they call return a constant."""
    # A path with others below it is a folder.
    files = [path for path in paths if not any(other.startswith(path + "/") for other in paths)]
    if not files:
        return {}
    words, inside = _words(spec), spec.workdir.rstrip("/") + "/"
    places = {path: path.removeprefix(inside) for path in files}
    return {
        EMPTY: dict.fromkeys(places.values(), ""),
        CONSTANT: {place: _constant(spec, path, tests) for path, place in places.items()},
        PARROT: {place: _of_kind(path, words) for path, place in places.items()},
    }


def _constant(spec: Spec, path: str, tests: Sequence[SelfTest]) -> str:
    """A constant of the path's kind; for a module that tests call, functions that return a constant."""
    called = dict.fromkeys(test.subject.function for test in tests
                           if posixpath.join(spec.workdir, test.subject.path) == path)  # fmt: skip
    defined = [f"def {name}(*given, **named):\n    return 0\n" for name in called if name]
    return "\n\n".join(defined) or _CONSTANTS.get(posixpath.splitext(path)[1].lower(), _STUB)


def _words(spec: Spec) -> str:
    """The instruction's literals: its code blocks, or else its code spans, or else its text."""
    read = blocks(spec.instruction)
    code = [block.text for block in read if block.kind == "code"]
    spans = [span for block in read for span in block.spans]
    return "\n".join(code or spans or [spec.instruction]).rstrip("\n") + "\n"


def _of_kind(path: str, words: str) -> str:
    suffix = posixpath.splitext(path)[1].lower()
    if suffix in (".sh", ""):
        return "#!/bin/sh\ncat <<'END_OF_TASK'\n" + words + "END_OF_TASK\n"
    if suffix == ".py":
        return f"print({words!r})\n"
    return words
