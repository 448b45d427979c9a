"""Self-tests that need no model: what the instruction says in its own words (files, formats, functions, examples) and
generic inputs of the signature's types."""

import re
from collections.abc import Mapping, Sequence

from hc_ray.solve import edges, inputs
from hc_ray.solve.constraints import conditional
from hc_ray.solve.deliverable import Deliverable
from hc_ray.solve.fixtures import Given, argument_kinds, content_for, given
from hc_ray.solve.printed_rules import rules
from hc_ray.solve.requirements import sentence_for, speaks_of
from hc_ray.solve.scan import Found
from hc_ray.solve.shown import pattern_examples, uses
from hc_ray.solve.stated_calls import answer_type, shown_calls, told_calls
from hc_ray.solve.stated_calls import examples as examples
from hc_ray.solve.taken import takes
from hc_ray.solve.target import Target, reads_stdin, targets_of
from hc_ray.suite import Category, Expectation, ExpectedValue, FileView, Property, Rejected, SelfTest, Subject, Unknown

STATED_WEIGHT = 3.0
"""A stated example weighs as much as three guesses."""
ROBUST_WEIGHT = 0.3
"""What "no crash here" weighs: a third of a guess."""
_FORMATS = {"json": "valid_json", "csv": "valid_csv"}
_RANGES: tuple[tuple[Category, inputs.Range], ...] = (
    ("happy_path", "ordinary"), ("boundary", "boundary"), ("edge_case", "edge"),
)  # fmt: skip


def test_of(
    instruction: str,
    category: Category,
    subject: Subject,
    expectation: Expectation,
    *,
    text: str = "",
    stdin: str = "",
    files: Mapping[str, str] | None = None,
    output: str = "",
    reasoning: str,
    confidence: float,
    weight: float = 1.0,
    guard: bool = False,
    sentence: str = "",
) -> SelfTest:
    """A test without an id yet, with the sentence that it encodes (found by its text and category where not given)."""
    mention = text if subject.kind == "call" else subject.path
    if subject.kind == "pattern" and re.search(
        r"\b(?:whole|entire|full|complete) (?:string|text|line|input)", instruction
    ):
        subject = subject.model_copy(update={"whole": True})
    return SelfTest(
        id="", category=category, subject=subject, input=text, stdin=stdin, files=dict(files or {}), output=output,
        expectation=expectation, reasoning=reasoning, confidence=confidence, weight=weight, guard=guard,
        sentence=sentence or sentence_for(instruction, category, mention),
    )  # fmt: skip


def stated_tests(instruction: str, deliverable: Deliverable) -> tuple[SelfTest, ...]:
    """Existence, format, stated examples and what follows from them."""
    made: list[SelfTest] = []
    for file in deliverable.files:
        subject, language = Subject(kind="file", path=file.path), file.language
        names = ["exists", "nonempty"]
        formats = [_FORMATS[language]] if language in _FORMATS else []
        formats = ["compiles"] if language in ("python", "shell", "c") else [*formats, "utf8"]
        wanted_of: dict[Category, list[str]] = {"existence": names, "format": formats}
        for category, wanted in wanted_of.items():
            made += [
                test_of(instruction, category, subject, Property(name=name), reasoning="what the file must be",
                        confidence=0.95, guard=file.exists)
                for name in wanted
            ]  # fmt: skip
    targets = targets_of(deliverable)
    for target in targets:
        made += _of_target(instruction, target)
        if len(targets) > 1 and target.kind == "call" and target.function:
            made += [
                test_of(instruction, "integration", target.subject, Property(name="runs"), text=call, confidence=0.6,
                        reasoning="every unit must run beside the others")
                for call in inputs.calls(target.function, target.parameters, (), "ordinary", 1)
            ]  # fmt: skip
    return tuple(made)


def _of_target(instruction: str, target: Target) -> list[SelfTest]:
    if target.kind == "call" and target.function:
        return _of_function(instruction, target, target.function)
    if target.kind in ("command", "program"):
        return _of_command(instruction, target)
    return _of_pattern(instruction, target) if target.kind == "pattern" else []


def _of_function(instruction: str, target: Target, function: str) -> list[SelfTest]:
    shown = shown_calls(instruction, target)
    found = examples(instruction, target)
    defines = Property(name="defines", argument=function)
    made = [test_of(instruction, "format", target.file, defines, reasoning="the function is asked for by name",
                    confidence=0.95)]  # fmt: skip
    for example in shown:
        if example.kind == "unknown":
            continue
        category: Category = "invalid_input" if example.kind == "rejected" else "happy_path"
        expectation = Rejected() if example.kind == "rejected" else ExpectedValue(value=example.expected or "None")
        made.append(
            test_of(instruction, category, target.subject, expectation, text=example.call, weight=STATED_WEIGHT,
                    reasoning="the instruction states this answer", confidence=0.9)
        )  # fmt: skip
    made += _of_words(instruction, target, shown)
    # What must be refused has no answer whose type could be looked at.
    samples = [example.call for example in found if example.kind != "rejected"]
    # An input of a type that nobody speaks of may be none that anything right can answer: it judges nobody.
    known = inputs.are_known(target.parameters, samples)
    ordinary = inputs.calls(function, target.parameters, samples, "ordinary", 3) if known else ()
    # Where some inputs must be refused, an input of the right type may be one of them.
    refuses = edges.refuses(instruction)
    if kind := answer_type(target, found):
        made += [
            test_of(instruction, "format", target.subject, Property(name="type", argument=kind), text=call,
                    reasoning="every answer is said to be of this type", confidence=0.8)
            for call in (samples if refuses else ordinary)[:2]
        ]  # fmt: skip
    if samples or ordinary:
        made.append(
            test_of(instruction, "happy_path", target.subject, Property(name="deterministic"),
                    text=(*samples, *ordinary)[0], reasoning="calls must not disturb each other", confidence=0.9)
        )  # fmt: skip
    made += _of_condition(instruction, target, function, samples)
    answers = [example.expected for example in found if example.kind == "value"]
    if answers and "None" not in answers and not refuses:
        made += [
            test_of(instruction, "anti_cheat", target.subject, Property(name="not_none"), text=call, confidence=0.7,
                    reasoning="an answer that only knows the stated examples has none here")
            for call in [call for call in ordinary if call not in samples][:2]
        ]  # fmt: skip
    return made


def _of_words(instruction: str, target: Target, shown: Sequence[Found]) -> list[SelfTest]:
    """What is told in words. Where a call had to be made out of them it weighs half: the reading is less literal."""
    made = []
    for one in told_calls(instruction, target, shown):
        category: Category = "invalid_input" if one.expected is None else "happy_path" if one.shown else "boundary"
        expectation = Rejected() if one.expected is None else ExpectedValue(value=one.expected)
        made.append(
            test_of(instruction, category, target.subject, expectation, text=one.call, sentence=one.sentence,
                    weight=STATED_WEIGHT if one.literal else STATED_WEIGHT / 2,
                    confidence=0.85 if one.literal else 0.75,
                    reasoning="the instruction states input and answer" if one.literal
                    else "the instruction tells this answer in words")
        )  # fmt: skip
    return made


def _of_condition(instruction: str, target: Target, function: str, samples: Sequence[str]) -> list[SelfTest]:
    """Both sides of "returns A if … at least N and B otherwise"."""
    told = conditional(instruction)
    if told is None:
        return []
    inside, outside, limits = told
    made = []
    for edge in limits.edges:
        within = (limits.low is None or edge >= limits.low) and (limits.high is None or edge <= limits.high)
        for call in edges.calls_at(function, target.parameters, samples, limits, edge):
            made.append(
                test_of(instruction, "boundary", target.subject, ExpectedValue(value=inside if within else outside),
                        text=call, confidence=0.75, weight=STATED_WEIGHT / 2, sentence=limits.sentence,
                        reasoning="the instruction states this limit")
            )  # fmt: skip
    return made


def _of_command(instruction: str, target: Target) -> list[SelfTest]:
    made = []
    kinds = argument_kinds(instruction)
    shown = uses(instruction, target.path)
    # That nothing comes out proves something only beside an output that is stated: a crash prints nothing either.
    speaks = any(use.output for use in shown)
    for use in shown:
        words = use.arguments.split()
        # An example about files that nobody has cannot be tried; those of a plain name can be brought.
        files = content_for(words[0]) if kinds[:1] == ("file",) and len(words) == 1 and not use.files else use.files
        if not files and kinds[:1] in (("file",), ("folder",)) and use.arguments:
            continue
        if files and not use.files and use.output is not None:
            continue
        if use.output is not None and not use.files and _names_file(instruction, words):
            continue
        expectation: Expectation = Unknown()
        if use.output is not None:
            expectation = ExpectedValue(value=use.output)
        if use.output is not None and not use.output.strip() and not speaks:
            expectation = Property(name="line_count", argument="0")
        if use.output is not None and use.first_line_only:
            expectation = Property(name="header", argument=use.output)
        if use.makes:
            copies = re.search(r"\bcop(?:y|ies)\b", instruction, re.IGNORECASE) and files
            expectation = ExpectedValue(value=files[words[0]]) if copies else Property(name="runs")
        told: list[Expectation] = [expectation] if expectation.kind != "unknown" or use.status is None else []
        told += [Property(name="exits", argument=str(use.status))] if use.status is not None else []
        made += [
            test_of(instruction, "happy_path", target.subject, one, text=use.arguments, stdin=use.stdin,
                    files=files, output=use.makes, reasoning="the instruction states this use", confidence=0.8,
                    weight=STATED_WEIGHT if one.kind != "unknown" else 1.0)
            for one in told
        ]  # fmt: skip
    ordinary = given(instruction, "ordinary", 2)
    runs = [one for one in ordinary if not made or one.files]
    for name, one in ((name, one) for one in runs[:1] for name in ("runs", "deterministic")):
        made.append(
            test_of(instruction, "happy_path", target.subject, Property(name=name), text=one.arguments, stdin=one.stdin,
                    files=one.files, confidence=0.8, reasoning="an ordinary use must end well")
        )  # fmt: skip
    return made + _of_rules(instruction, target, ordinary)


def _names_file(instruction: str, words: Sequence[str]) -> bool:
    """Whether an argument is likely a file or a folder, whose content nobody has shown."""
    taken = r"\b(?:takes?|taking|given) (?:the \w+ of )?(?:an?|one|two|the) (?:\w+ )?(?:file|folder|directory|path)"
    if re.search(taken, instruction, re.IGNORECASE):
        return bool(words)
    named = any(re.fullmatch(r"[\w./-]+\.[a-z]\w{0,4}", word) for word in words)
    return named and re.search(r"\bfiles?\b", instruction, re.IGNORECASE) is not None


def _of_rules(instruction: str, target: Target, ordinary: Sequence[Given]) -> list[SelfTest]:
    """What the instruction says of every output, tried on ordinary input; nothing where it does not say what input is
    ordinary."""
    known = argument_kinds(instruction) or not takes(instruction)
    shaped = re.search(r"\breads? (?:lines?|pairs?|records?)\b[^.]*\b(?:like|form|with|of)\b", instruction)
    return [
        test_of(instruction, "format", target.subject, Property(name=rule.name, argument=rule.argument),
                text=one.arguments, stdin=one.stdin, files=one.files, confidence=0.75, sentence=rule.sentence,
                reasoning="the instruction says this of every output")
        for rule in rules(instruction) for one in ordinary[:1] if known and not shaped
    ]  # fmt: skip


def _of_pattern(instruction: str, target: Target) -> list[SelfTest]:
    compiles = Property(name="compiles")
    made = [test_of(instruction, "format", target.subject, compiles, reasoning="it must be a regular expression",
                    confidence=0.95),
            test_of(instruction, "format", target.file, Property(name="line_count", argument="1"), confidence=0.8,
                    reasoning="one expression stands on one line")]  # fmt: skip
    for text, wanted in pattern_examples(instruction):
        expectation = Property(name="nonempty") if wanted else Rejected()
        made.append(test_of(instruction, "happy_path", target.subject, expectation, text=text, weight=STATED_WEIGHT,
                            reasoning="the instruction says so of this text", confidence=0.7))  # fmt: skip
    return made


def generic_tests(
    instruction: str,
    deliverable: Deliverable,
    *,
    count: int,
    files: Sequence[FileView] = (),
    like: Sequence[str] = (),
) -> tuple[SelfTest, ...]:
    """Inputs only (*unknown*), up to ``count`` a target and range: stated inputs first, then what lies at the edges of
    stated limits, real files of the workspace, then inputs of the signature's types. ``like``: calls whose arguments
    are of the right types, where the instruction shows none."""
    made: list[SelfTest] = []
    for target in targets_of(deliverable):
        if target.kind == "call" and target.function:
            mine = [call for call in like if call.startswith(f"{target.function}(")]
            tried = _call_inputs(instruction, target, target.function, count, files, mine)
        elif target.kind in ("command", "program"):
            tried = _command_inputs(instruction, target, count, files)
        elif target.kind == "pattern":
            tried = [(category, Given(arguments=text), "") for category, text in edges.texts(instruction, count)]
        else:
            tried = []
        made += [
            test_of(instruction, category, target.subject, Unknown(), text=given.arguments, stdin=given.stdin,
                    files=given.files, confidence=0.5, sentence=sentence,
                    reasoning="an input of the right kind; candidates are compared on it")
            for category, given, sentence in tried
        ]  # fmt: skip
    made += [
        test_of(instruction, "happy_path", target.file, Unknown(), confidence=0.5,
                reasoning="what the file holds is compared between candidates")
        for target in targets_of(deliverable) if target.kind == "file"
    ]  # fmt: skip
    return tuple(made)


Tried = tuple[Category, Given, str]
"""A category, what is given, and the sentence that it tries (empty: by the category's words)."""


def _call_inputs(
    instruction: str, target: Target, function: str, count: int, files: Sequence[FileView], like: Sequence[str]
) -> list[Tried]:
    shown = [example.call for example in examples(instruction, target)]
    samples = shown or like
    tried: list[Tried] = [("happy_path", Given(arguments=call), "") for call in shown[:count]]
    tried += [
        ("boundary", Given(arguments=call), sentence)
        for call, sentence in edges.calls(instruction, function, target.parameters, samples)
    ]
    real = edges.real_files(function, target.parameters, files)
    tried += [("integration", Given(arguments=call), "") for call in real[:count]]
    tried += [
        (category, Given(arguments=call), "")
        for category, reach in _RANGES
        for call in inputs.calls(function, target.parameters, samples, reach, count)
    ]
    varied = inputs.calls(function, target.parameters, samples, "ordinary", count + 3)[count:]
    return tried + [("anti_cheat", Given(arguments=call), "") for call in varied]


def _command_inputs(instruction: str, target: Target, count: int, files: Sequence[FileView]) -> list[Tried]:
    takes_files = set(argument_kinds(instruction)[:1]) & {"file", "folder"}
    shown = [use for use in uses(instruction, target.path) if not takes_files and (use.arguments or use.stdin)]
    tried: list[Tried] = [
        ("happy_path", Given(arguments=use.arguments, stdin=use.stdin, files=use.files), "") for use in shown[:count]
    ]
    for category, reach in _RANGES:
        tried += [(category, one, "") for one in given(instruction, reach, count, files)]
    varied = given(instruction, "ordinary", count + 2, files)[count:]
    return tried + [("anti_cheat", one, "") for one in varied]


def robust_tests(instruction: str, deliverable: Deliverable) -> tuple[SelfTest, ...]:
    """That what the instruction allows is answered without a crash, at a low weight: nobody says that it must be, so
    it only tips scales. Nothing where the instruction speaks of refusals: an edge may be one."""
    if speaks_of(instruction, "invalid_input"):
        return ()
    made = []
    runs = Property(name="runs")
    for target in targets_of(deliverable):
        tried: list[tuple[Category, Given]] = []
        if target.kind == "call" and target.function:
            samples = [example.call for example in examples(instruction, target)]
            tried = [
                (category, Given(arguments=call))
                for category, call in edges.allowed_calls(instruction, target.function, target.parameters, samples)
            ]
        elif target.kind in ("command", "program"):
            empty = edges.allows_nothing(instruction) or not reads_stdin(instruction)
            tried = [(category, one) for category, reach in _RANGES[1:] for one in given(instruction, reach, 2)
                     if (empty or one.stdin.strip()) and edges.as_many(instruction, one.stdin)]  # fmt: skip
        made += [
            test_of(instruction, category, target.subject, runs, text=one.arguments, stdin=one.stdin, files=one.files,
                    confidence=0.5, weight=ROBUST_WEIGHT, reasoning="nothing forbids this input: no crash is expected")
            for category, one in tried
        ]  # fmt: skip
    return tuple(made)
