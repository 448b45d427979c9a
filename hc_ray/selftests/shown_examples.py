"""The targets of tests in a deliverable (each function that a module must define, or else the file by its kind), and
the self-tests that need no model: shown examples and what follows from them, the file's format, and inputs of the types
in signatures and examples."""

import ast
import re
import shlex
from typing import Any, Literal

from hc_ray.agent.deliverable import Deliverable
from hc_ray.domain.suite import Category, Expectation, ExpectedValue, Property, Rejected, SelfTest, Subject, Unknown
from hc_ray.domain.value import Value
from hc_ray.selftests import inputs
from hc_ray.spec.source import parsed
from hc_ray.spec.spec import Call, Run, Spec

TargetKind = Literal["call", "command", "program", "file"]


class Target(Value):
    """One target of tests."""

    kind: TargetKind
    path: str
    """Relative if it is below the workdir, else absolute."""
    function: str | None = None
    parameters: tuple[str, ...] = ()
    """As in the signature (``name``, ``name: int = 3``)."""

    @property
    def subject(self) -> Subject:
        return Subject(kind=self.kind, path=self.path, function=self.function)


def targets_of(deliverable: Deliverable) -> tuple[Target, ...]:
    """The targets in a deliverable; empty if no file is known beforehand."""
    if deliverable.path is None:
        return ()
    kinds: dict[str, TargetKind] = {"script": "command", "shell": "command", "program": "program"}
    if deliverable.kind != "function":
        return (Target(kind=kinds.get(deliverable.kind, "file"), path=deliverable.path),)
    return tuple(
        Target(kind="call", path=deliverable.path, function=signature.name, parameters=_parts(signature.parameters))
        for signature in deliverable.signatures
    )  # fmt: skip


def _parts(parameters: str | None) -> tuple[str, ...]:
    """Each parameter as written; empty if the text is not valid Python."""
    tree = parsed(f"def f({parameters or ''}): pass")
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return ()
    given = tree.body[0].args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [
        ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")
        for argument, default in zip(plain, defaults, strict=True)
    ]
    return (*parts, *([f"*{given.vararg.arg}"] if given.vararg else []))


SHOWN_WEIGHT = 3.0
"""Weight of a shown example: as much as three guesses."""
RANGES: tuple[tuple[Category, inputs.Range], ...] = (
    ("happy_path", "ordinary"), ("boundary", "boundary"), ("edge_case", "edge"),
)  # fmt: skip
"""(category, range of its inputs)."""
_FORMATS = {"json": ("valid_json", "utf8"), "csv": ("valid_csv", "utf8"), "text": ("utf8",)}
_PROGRAMS = ("sh", "bash", "python", "python3", "./")


def test_of(
    spec: Spec, category: Category, subject: Subject, expectation: Expectation, *, passage: str = "", **fields: Any
) -> SelfTest:
    """A test without an id, with the sentence that it encodes: the one in ``passage`` that mentions the subject, or
    else the first that does. ``fields``: further fields of the test."""
    mention = fields.get("input", "") if subject.kind == "call" else subject.path
    within = [one for one in spec.sentences if one in passage]
    sentence = next((one for one in within if _bare(mention) in _bare(one)), within[0]) if within else None
    return SelfTest(id="", category=category, subject=subject, expectation=expectation,
                    sentence=spec.sentence_with(mention) if sentence is None else sentence, **fields)  # fmt: skip


test_of.__test__ = False  # type: ignore[attr-defined]


def _bare(text: str) -> str:
    """A text normalised so that two spellings of one call are equal."""
    return re.sub(r"[\s\"'`]", "", text)


def shown_tests(spec: Spec, deliverable: Deliverable) -> tuple[SelfTest, ...]:
    """Tests of the file's format, the shown examples and what follows from them."""
    if deliverable.path is None:
        return ()
    file = Subject(kind="file", path=deliverable.path)
    names = ["compiles"] if deliverable.kind != "file" else [*_FORMATS[deliverable.language]]
    wanted: list[tuple[Category, str]] = [("existence", "exists"), ("existence", "nonempty")]
    wanted += [("format", name) for name in names]
    made = [
        test_of(spec, category, file, Property(name=name), reasoning="what the file must be", confidence=0.95,
                guard=deliverable.exists)
        for category, name in wanted
    ]  # fmt: skip
    for target in targets_of(deliverable):
        if target.function:
            made.append(test_of(spec, "format", file, Property(name="defines", argument=target.function),
                                reasoning="the instruction names the function", confidence=0.95))  # fmt: skip
        for example in calls_of(spec, target.function) if target.function else ():
            if example.expected is not None or example.rejected:
                category: Category = "invalid_input" if example.rejected else "happy_path"
                expectation = Rejected() if example.rejected else ExpectedValue(value=example.expected or "None")
                made.append(test_of(spec, category, target.subject, expectation, input=example.call,
                                    passage=example.sentence, weight=SHOWN_WEIGHT,
                                    reasoning="the instruction shows this answer", confidence=0.9))  # fmt: skip
        for use in usages(spec, target.path) if target.kind in ("command", "program") else ():
            if use.output is not None:
                made.append(test_of(spec, "happy_path", target.subject, ExpectedValue(value=use.output),
                                    input=use.command, stdin=use.stdin, passage=use.sentence, weight=SHOWN_WEIGHT,
                                    reasoning="the instruction shows this run", confidence=0.8))  # fmt: skip
    return tuple(made)


def calls_of(spec: Spec, function: str) -> tuple[Call, ...]:
    """The shown calls of a function."""
    return tuple(one for one in spec.calls if one.function == function)


def usages(spec: Spec, path: str) -> tuple[Run, ...]:
    """The shown runs of the program ``path``, with only its arguments as command: runs whose command is the program
    with plain words, and Input/Output blocks, which do not name a program."""
    found = (_usage(run, path.rsplit("/", 1)[-1]) for run in spec.runs)
    return tuple(dict.fromkeys(one for one in found if one is not None))


_ECHO = re.compile(r"(?:echo|printf) (?:'([^']*)'|\"([^\"$`\\]*)\"|([\w.,:-]+)) *\| *(.*)", re.DOTALL)


def _usage(run: Run, name: str) -> Run | None:
    command, stdin = run.command.strip(), run.stdin
    if not command:
        return run
    if piped := _ECHO.fullmatch(command):
        stdin, command = next(text for text in piped.groups()[:3] if text is not None) + "\n", piped[4]
    if re.search(r"[;&|<>$`\n]", command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words and words[0] in _PROGRAMS:
        words = words[1:]
    if not words or words[0].rsplit("/", 1)[-1] not in (name, name.rsplit(".", 1)[0]):
        return None
    return run.model_copy(update={"command": shlex.join(words[1:]), "stdin": stdin})


def generic_inputs(spec: Spec, deliverable: Deliverable, *, count: int) -> tuple[SelfTest, ...]:
    """Tests with inputs only (*unknown*), up to ``count`` per target and range: shown inputs first, then inputs of the
    types in signatures and examples; for a file, its content."""
    made: list[SelfTest] = []
    for target in targets_of(deliverable):
        tried: list[tuple[Category, str, str]] = []
        if target.function:
            samples = [one.call for one in calls_of(spec, target.function) if not one.rejected]
            tried = [("happy_path", call, "") for call in samples[:count]]
            for category, reach in RANGES:
                made_up = inputs.calls(target.function, target.parameters, samples, reach, count)
                tried += [(category, call, "") for call in made_up]
            varied = inputs.calls(target.function, target.parameters, samples, "ordinary", count + 3)[count:]
            tried += [("anti_cheat", call, "") for call in varied]
        elif target.kind == "file":
            tried = [("happy_path", "", "")]
        else:
            tried = [("happy_path", use.command, use.stdin) for use in usages(spec, target.path)[:count]]
        made += [
            test_of(spec, category, target.subject, Unknown(), input=text, stdin=stdin, confidence=0.5,
                    reasoning="an input of the right kind; candidates are compared on it")
            for category, text, stdin in tried
        ]  # fmt: skip
    return tuple(made)
