"""Self-tests that need no model: what the instruction says in its own words (files, formats, functions, examples) and
generic inputs of the signature's types."""

import ast
import re
from collections.abc import Sequence

from hc_ray.solve import inputs
from hc_ray.solve.deliverable import Deliverable
from hc_ray.solve.requirements import sentence_for, sentences
from hc_ray.solve.scan import Found, find_calls
from hc_ray.solve.target import Target, reads_stdin, takes_arguments, targets_of
from hc_ray.suite import Category, Expectation, ExpectedValue, Property, Rejected, SelfTest, Subject, Unknown

STATED_WEIGHT = 3.0
"""A stated example weighs as much as three guesses."""
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
    reasoning: str,
    confidence: float,
    weight: float = 1.0,
    guard: bool = False,
) -> SelfTest:
    """A test without an id yet, with the sentence that it encodes."""
    mention = text if subject.kind == "call" else subject.path
    return SelfTest(
        id="", category=category, subject=subject, input=text, stdin=stdin, expectation=expectation,
        reasoning=reasoning, confidence=confidence, weight=weight, guard=guard,
        sentence=sentence_for(instruction, category, mention),
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
    found = examples(instruction, target)
    defines = Property(name="defines", argument=function)
    made = [test_of(instruction, "format", target.file, defines, reasoning="the function is asked for by name",
                    confidence=0.95)]  # fmt: skip
    for example in found:
        if example.kind == "unknown":
            continue
        category: Category = "invalid_input" if example.kind == "rejected" else "happy_path"
        expectation = Rejected() if example.kind == "rejected" else ExpectedValue(value=example.expected or "None")
        made.append(
            test_of(instruction, category, target.subject, expectation, text=example.call, weight=STATED_WEIGHT,
                    reasoning="the instruction states this answer", confidence=0.9)
        )  # fmt: skip
    samples = [example.call for example in found]
    ordinary = inputs.calls(function, target.parameters, samples, "ordinary", 3)
    if kind := answer_type(target, found):
        made += [
            test_of(instruction, "format", target.subject, Property(name="type", argument=kind), text=call,
                    reasoning="every stated answer is of this type", confidence=0.8)
            for call in ordinary[:2]
        ]  # fmt: skip
    if samples or ordinary:
        made.append(
            test_of(instruction, "happy_path", target.subject, Property(name="deterministic"),
                    text=(*samples, *ordinary)[0], reasoning="calls must not disturb each other", confidence=0.9)
        )  # fmt: skip
    answers = [example.expected for example in found if example.kind == "value"]
    if answers and "None" not in answers:
        made += [
            test_of(instruction, "anti_cheat", target.subject, Property(name="not_none"), text=call, confidence=0.7,
                    reasoning="an answer that only knows the stated examples has none here")
            for call in [call for call in ordinary if call not in samples][:2]
        ]  # fmt: skip
    return made


def _of_command(instruction: str, target: Target) -> list[SelfTest]:
    made = []
    for arguments, output in command_examples(instruction, target.path):
        expectation = Unknown() if output is None else ExpectedValue(value=output)
        made.append(test_of(instruction, "happy_path", target.subject, expectation, text=arguments,
                            reasoning="the instruction states this use", confidence=0.8,
                            weight=1.0 if output is None else STATED_WEIGHT))  # fmt: skip
    for told, output in stdin_examples(instruction):
        made.append(test_of(instruction, "happy_path", target.subject, ExpectedValue(value=output), stdin=told + "\n",
                            reasoning="the instruction states this answer", confidence=0.8,
                            weight=STATED_WEIGHT))  # fmt: skip
    if not made and not takes_arguments(instruction) and not reads_stdin(instruction):
        for name in ("runs", "deterministic"):
            made.append(test_of(instruction, "happy_path", target.subject, Property(name=name), confidence=0.8,
                                reasoning="it is run with neither arguments nor input"))  # fmt: skip
    return made


def _of_pattern(instruction: str, target: Target) -> list[SelfTest]:
    compiles = Property(name="compiles")
    made = [test_of(instruction, "format", target.subject, compiles, reasoning="it must be a regular expression",
                    confidence=0.95)]  # fmt: skip
    for text, wanted in pattern_examples(instruction):
        expectation = Property(name="nonempty") if wanted else Rejected()
        made.append(test_of(instruction, "happy_path", target.subject, expectation, text=text, weight=STATED_WEIGHT,
                            reasoning="the instruction says so of this text", confidence=0.7))  # fmt: skip
    return made


def generic_tests(instruction: str, deliverable: Deliverable, *, count: int) -> tuple[SelfTest, ...]:
    """Inputs only (*unknown*), up to ``count`` a target and range, by signature types; stated inputs come first."""
    made: list[SelfTest] = []
    for target in targets_of(deliverable):
        if target.kind == "call" and target.function:
            samples = [example.call for example in examples(instruction, target)]
            pairs = [
                (category, call, "")
                for category, reach in _RANGES
                for call in inputs.calls(target.function, target.parameters, samples, reach, count)
            ]
            pairs = [("happy_path", call, "") for call in samples[:count]] + pairs
        elif target.kind in ("command", "program"):
            pairs = _command_inputs(instruction, target, count)
        elif target.kind == "pattern":
            pairs = [("happy_path", text, "") for text, _ in pattern_examples(instruction)][:count]
            pairs += [(category, text, "") for category, reach in _RANGES for text in inputs.TEXTS[reach][:count]]
        else:
            pairs = []
        made += [
            test_of(instruction, category, target.subject, Unknown(), text=text, stdin=stdin, confidence=0.5,
                    reasoning="an input of the right kind; candidates are compared on it")
            for category, text, stdin in pairs
        ]  # fmt: skip
    made += [
        test_of(instruction, "happy_path", target.file, Unknown(), confidence=0.5,
                reasoning="what the file holds is compared between candidates")
        for target in targets_of(deliverable) if target.kind == "file"
    ]  # fmt: skip
    return tuple(made)


def _command_inputs(instruction: str, target: Target, count: int) -> list[tuple[Category, str, str]]:
    stdin, arguments = reads_stdin(instruction), takes_arguments(instruction)
    shown = [text for text, _ in command_examples(instruction, target.path)]
    texts = inputs.texts(instruction)
    pairs: list[tuple[Category, str, str]] = [
        ("happy_path", text, texts["ordinary"][0] if stdin else "") for text in shown[:count]
    ]
    for category, reach in _RANGES:
        for i in range(count):
            words = inputs.COMMAND_ARGUMENTS[reach]
            given = words[i % len(words)] if arguments else (shown[0] if shown else "")
            told = texts[reach][i % len(texts[reach])] if stdin else ""
            if (category, given, told) not in pairs and (arguments or stdin or not pairs):
                pairs.append((category, given, told))
    return pairs


def examples(instruction: str, target: Target) -> tuple[Found, ...]:
    """The calls that the instruction shows, each once (the first that says an answer), signatures left out."""
    kept: dict[str, Found] = {}
    for found in find_calls(instruction, target.function or ""):
        held = kept.get(found.call)
        if held is None or (held.kind == "unknown" and found.kind != "unknown"):
            kept[found.call] = found
    return tuple(kept.values())


def answer_type(target: Target, found: Sequence[Found]) -> str | None:
    """The type of every answer: the annotation's, else that of all stated answers."""
    if match := re.fullmatch(r"(int|float|str|bool|list|dict|tuple|set)\b(?:\[.*\])?", target.returns.strip()):
        return "float|int" if match[1] == "float" else match[1]
    kinds = {type(ast.literal_eval(example.expected)).__name__ for example in found if example.expected is not None}
    if len(kinds) == 1 and len(found) > 0:
        kind = kinds.pop()
        return "float|int" if kind in ("float", "int") else (kind if kind != "NoneType" else None)
    return None


_SAYS = re.compile(r"`?\s*(?:(?:should |must |will )?(?:prints?|outputs?|writes?|gives?)|->|=>|→)\s*:?\s*")


def command_examples(instruction: str, path: str) -> tuple[tuple[str, str | None], ...]:
    """``(arguments, output or None)`` for every use of the command that the instruction shows in code."""
    name = re.escape(path.rsplit("/", 1)[-1])
    stem = re.escape(path.rsplit("/", 1)[-1].rsplit(".", 1)[0])
    started = r"(?:(?:ba)?sh |python3? )?(?:\./|/(?:[\w.-]+/)*)?"
    used = re.compile(rf"(?:`|^[ \t>$]*){started}(?:{name}|(?<=/){stem})((?: [^`\n]*)?)(?:`|$)", re.MULTILINE)
    found: dict[str, str | None] = {}
    for match in used.finditer(instruction):
        arguments, output = match[1].strip(), None
        if re.search(r"[<>|;&]|\bARG|\.\.\.|\$", arguments):
            continue
        if said := _SAYS.match(instruction, match.end()):
            told = re.match(r"`([^`\n]+)`|\"([^\"\n]+)\"", instruction[said.end() :])
            output = (told[1] or told[2]) if told else None
        if arguments and found.get(arguments) is None:
            found[arguments] = output
    return tuple(found.items())


_REFUSES = re.compile(r"\bnot\b|n't\b|\bnever\b", re.IGNORECASE)
_REFUSED = re.compile(r"\s*(?:does|do|is|are|must|should|may)(?: not\b|n't\b)", re.IGNORECASE)
_GIVEN = re.compile(
    r"\binput (?:is |of )?`([^`\n]+)`[^`.\n]{0,40}?\b(?:prints?|outputs?|gives?|output is|answer is)\s+`([^`\n]+)`"
)


def stdin_examples(instruction: str) -> tuple[tuple[str, str], ...]:
    """``(standard input, output)`` where the instruction says "for the input … it prints …"."""
    if not reads_stdin(instruction):
        return ()
    return tuple(dict.fromkeys((match[1], match[2]) for match in _GIVEN.finditer(instruction)))


def pattern_examples(instruction: str) -> tuple[tuple[str, bool], ...]:
    """``(text, must match)`` for every quoted text in a sentence that speaks of matching."""
    found: dict[str, bool] = {}
    for sentence in sentences(instruction):
        if not re.search(r"\bmatch", sentence, re.IGNORECASE):
            continue
        for clause in re.split(r"\bbut\b|;", sentence):
            for quoted in re.finditer(r"`([^`\n]+)`|\"([^\"\n]+)\"", clause):
                text = quoted[1] or quoted[2]
                if re.search(r"\.(?:txt|re|regex|rx|pattern|log)$|\bre\.\w+", text):
                    continue
                until = re.search(r"[`\"]", clause[quoted.end() :])
                after = clause[quoted.end() :][: until.start() if until else None]
                refused = _REFUSES.search(clause[: quoted.start()]) or _REFUSED.match(after)
                found.setdefault(text, refused is None)
    return tuple(found.items())
