"""A tester that writes whole test files: its prompts, and the parsing of its answers into checks. It sees the
instruction and the untouched environment, never a solution."""

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from string import Template

from hc_ray.agent.code_blocks import Block, read_blocks
from hc_ray.agent.prompt_templates import fenced, filled, template
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.suite import CATEGORIES, Category, Property, SelfTest, Subject
from hc_ray.domain.value import Value
from hc_ray.selftests.coverage import sentence_of
from hc_ray.selftests.runner import BEFORE, CHECK_PROPERTY
from hc_ray.spec.spec import Spec

CONFIDENCE = 0.6
"""Initial confidence of a check: a capable model's interpretation of a sentence."""
_SHOWN_KNOWN = 60
_LINE = re.compile(
    r"^[\s*`-]*(?:\d+[.)])?[\s*`]*(?:name:\s*)?(test_\w+)(?:\(\))?[`*]*\s*:"
    r"[\s*`]*(right|wrong|broken|unsupported)\b[^|\n]*(?:\|(.*))?$",
    re.I | re.M,
)
_SAID = re.compile(r"\s*[\"“](.*)[\"”]\s*(?:\|(.*))?$")
"""A quotation, which may contain a bar, and a reason."""
_MARKS = "\"'“”"
_SCRIPT = re.compile(r"(?:#![^\n]*\n)?\s*#\s*(test_\w+)\s*:\s*([^\n]*)")
_SCRIPT_TEST = Template('''\
import shutil
import subprocess


def $name():
    """$says"""
    script = $script
    shell = shutil.which("bash") or "sh"
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, errors="replace", timeout=50)
    assert done.returncode == 0, (done.stdout + done.stderr)[-1500:]
''')
_HEADING = re.compile(r"^[\s#*]*(requirements?|assumptions?|uncertain\w*)\b[^\n]*$", re.I | re.M)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(.+)$", re.M)


class Written(Value):
    """What one answer of the tester holds."""

    tests: tuple[SelfTest, ...]
    requirements: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    uncertainties: tuple[str, ...] = ()


class Reading(Value):
    """What a second reading says of a test."""

    verdict: str
    """``right``, ``wrong``, ``broken`` or ``unsupported``."""
    quote: str = ""
    reason: str = ""


class Seen(Value):
    """The tester's input, and its sampling parameters."""

    spec: Spec
    environment: str
    files: str
    """Heads of the environment's files."""
    max_tokens: int
    temperature: float


def ask(seen: Seen, seed: int, *, known: Sequence[SelfTest] = (), reflection: str = "") -> Prompt:
    """The prompt for a test file. ``known``: existing tests."""
    wanted = filled("tests_first")
    if known:
        names = "\n".join(f"- {test.subject.function} ({test.category}): {(test.reasoning or test.sentence)[:160]}"
                          for test in known)  # fmt: skip
        shown = "\n".join(names.splitlines()[:_SHOWN_KNOWN])
        wanted = filled("tests_more", known=shown, reflection=reflection)
    return _prompt(seen, seed, "tests", "tests_file", workdir=seen.spec.workdir, before=BEFORE, wanted=wanted.strip(),
                   limit=f"{seen.max_tokens * 9 // 10:,}")  # fmt: skip


def ask_reading(seen: Seen, seed: int, tests: Sequence[SelfTest]) -> Prompt:
    """The prompt for an independent second reading of tests."""
    return _prompt(seen, seed, "reading", "tests_reading", tests=fenced(sources(tests), "python"))


def _prompt(seen: Seen, seed: int, purpose: str, name: str, **values: str) -> Prompt:
    """Fill a template for the task. ``values``: its placeholders besides instruction and environment."""
    user = filled(name, instruction=seen.spec.instruction.strip("\n"), environment=seen.environment, files=seen.files,
                  **values)  # fmt: skip
    messages = (Message(role="system", content=template("tests_system")), Message(role="user", content=user))
    return Prompt(role="tester", purpose=purpose, messages=messages, max_tokens=seen.max_tokens,
                  temperature=seen.temperature, seed=seed)  # fmt: skip


def read(completion: Completion, spec: Spec) -> Written | Malformed:
    """The tests in an answer, each with the module's imports, helpers and constants."""
    text = completion.text
    blocks = read_blocks(text)
    python = [one for one in blocks if one.language in ("python", "py", "python3", "")]
    code = "\n\n".join(block.text for block in python if "def test_" in block.text)
    cut = completion.finish_reason == "length"
    scripts = [made for block in blocks if (block.closed or not cut) and (made := _of_script(block)) is not None]
    if not code and not scripts:
        return Malformed(reason="the answer holds no Python block with a test function", text=text[:2000])
    parts = _parts(code)
    if parts is None:
        return Malformed(reason="the test file does not parse", text=code[:2000])
    functions = [part for part in parts if _is_test(part[0])]
    if functions and cut and not python[-1].closed:
        functions.pop()  # the last function was cut
    shared = [source for node, source in parts if not _is_test(node)]
    modules = [(node, "\n\n".join([*shared, source]) + "\n") for node, source in functions]
    modules += [(node, module) for module in scripts for node in ast.parse(module).body if _is_test(node)]
    if not modules:
        return Malformed(reason="the answer holds no whole test function", text=text[:2000])
    found = [_test(node, module, spec) for node, module in modules if isinstance(node, ast.FunctionDef)]
    return Written(tests=tuple(found), **_sections(text.partition("```")[0]))


def _of_script(block: Block) -> str | None:
    """The module for a test that is a shell script; None if the block is not one."""
    said = _SCRIPT.match(block.text) if block.language in ("sh", "bash", "shell") else None
    if said is None:
        return None
    plain = "'''" not in block.text
    says = said[2].replace("\\", "").replace('"""', "").strip()
    script = f"r'''{block.text}'''" if plain else repr(block.text)
    return _SCRIPT_TEST.substitute(script=script, name=said[1], says=f"{says} ")


def _parts(code: str) -> list[tuple[ast.stmt, str]] | None:
    """The statements of a module, each with its source and preceding comments; up to the first syntax error or the
    cut."""
    lines = code.replace("\r\n", "\n").split("\n")
    for _ in range(40):
        try:
            body = ast.parse("\n".join(lines)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = getattr(error, "lineno", None) or len(lines)
            starts = [i for i, line in enumerate(lines[: max(1, at - 1)]) if re.match(r"(@|def |class )", line)]
            if not starts:
                return None
            lines = lines[: starts[-1]]
            continue
        ends = [0, *(node.end_lineno or node.lineno for node in body)]
        begins = [min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))]) for node in body]
        begins.append(len(lines) + 1)
        return [
            (node, "\n".join(lines[ends[i] : ends[i + 1]]).strip("\n"))
            if ends[i] < begins[i] and ends[i + 1] < begins[i + 1]
            else (node, ast.unparse(node))  # it shares a line with another statement
            for i, node in enumerate(body)
        ]
    return None


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test_")


def _test(node: ast.FunctionDef, module: str, spec: Spec) -> SelfTest:
    category, quote = _docstring(ast.get_docstring(node) or "")
    return SelfTest(
        id=node.name,
        category=category,
        subject=Subject(kind="check", path="", function=node.name),
        input=module,
        expectation=Property(name=CHECK_PROPERTY),
        confidence=CONFIDENCE,
        sentence=sentence_of(quote, spec),
        reasoning=quote,
    )


def _docstring(text: str) -> tuple[Category, str]:
    """The category and quotation in a test's docstring."""
    first, _, rest = " ".join(text.split()).partition("|")
    named = first.strip().lower().replace(" ", "_").replace("-", "_")
    category: Category = next((one for one in CATEGORIES if one == named), "happy_path")
    return category, _unquoted(rest or first)


def _unquoted(text: str) -> str:
    """A quotation without quotation marks. Backticks count as such only if they enclose exactly the whole of it."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] in _MARKS and bare[-1] in _MARKS:
        bare = bare[1:-1]
    return bare.strip("` ") if bare.startswith("`") and bare.endswith("`") and bare.count("`") == 2 else bare.strip()


def _sections(prose: str) -> dict[str, tuple[str, ...]]:
    """Heading → its list, for the requested headings, including text on the heading's line."""
    marks = [*_HEADING.finditer(prose)]
    found: dict[str, tuple[str, ...]] = {}
    for mark, after in zip_longest(marks, marks[1:]):
        part = prose[mark.end() : after.start() if after else len(prose)]
        name = {"r": "requirements", "a": "assumptions", "u": "uncertainties"}[mark[1][0].lower()]
        beside = mark[0].partition(":")[2].strip(" *")
        items = tuple(" ".join(item.split())[:300] for item in (*filter(None, [beside]), *_ITEM.findall(part)))
        found[name] = (*found.get(name, ()), *items)
    return found


def fault_of(test: SelfTest) -> str | None:
    """Why a check asserts nothing; None if it can fail."""
    tree = ast.parse(test.input)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)
                     and node.name == test.subject.function), None)  # fmt: skip
    if function is None:
        return "does not parse: its function is missing"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert | ast.Raise):
            return None
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("raises", "check_call", "fail",
                                                                                        "check_output"):  # fmt: skip
            return None
        if isinstance(node, ast.keyword) and node.arg == "check":
            return None
    return "asserts nothing"


def sources(tests: Sequence[SelfTest]) -> str:
    """The tests as one file: shared code once, then each function. Tests that define a shared name differently are put
    into separate files, as they are run."""
    files: list[tuple[dict[str, str], list[str]]] = []
    for test in tests:
        shared: dict[str, str] = {}
        functions = []
        for node, source in _parts(test.input) or ():
            if isinstance(node, ast.FunctionDef) and node.name == test.subject.function:
                functions.append(source)
            else:
                shared[_bound(node) or source] = source
        fits = (file for file in files if all(file[0].get(name, one) == one for name, one in shared.items()))
        if (file := next(fits, None)) is None:
            files.append((shared, functions))
        else:
            file[0].update(shared)
            file[1].extend(functions)
    told = []
    for shared, functions in files:
        once = dict.fromkeys(shared.values())
        head = "".join(f"{one}\n\n" if "\n" in one else f"{one}\n" for one in once)
        told.append(f"{head}\n" + "\n\n".join(functions))
    return "\n\n# A file of its own:\n\n".join(told)


def _bound(node: ast.stmt) -> str:
    """The name defined by a function, a class or a simple assignment; else empty."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else ""


def read_readings(completion: Completion) -> Mapping[str, Reading]:
    """Test name → its second reading."""
    found = {}
    for name, verdict, rest in _LINE.findall(completion.text):
        quote, reason = said.groups("") if (said := _SAID.match(rest)) else rest.partition("|")[::2]
        found[name] = Reading(verdict=verdict.lower(), quote=_unquoted(quote), reason=reason.strip()[:200])
    return found
