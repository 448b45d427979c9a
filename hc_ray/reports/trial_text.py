"""One trial as ``show`` prints it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hc_ray.domain.candidate import NO_TEXT, in_lines
from hc_ray.domain.trial import WITHOUT_MODEL
from hc_ray.reports import terminal
from hc_ray.reports.page import NOT_MEASURED, UNEXPECTED, VERDICTS, Section

Data = Mapping[str, Any]
LINES, CHARACTERS, FILES = 80, 8000, 20
"""Of a text, and of a candidate, as far as they are shown to who does not ask for all."""
NO_TESTS = "none: this agent writes no tests"
INPUTS = "→ ?: an input without an expected value; candidates pass where they run, and are compared with each other."


def tell(trial: Data, *, out: str = "OUT", verbose: bool = False) -> None:
    """Print what ``describe`` found in the sweep directory ``out``. ``verbose`` shows long texts whole, and adds every
    prompt and answer."""
    for section in _sections(trial, out, verbose=verbose):
        terminal.tell(section)


def _sections(trial: Data, out: str, *, verbose: bool) -> Iterator[Section]:
    where = f"{trial['agent']}, seed {trial['seed']}, {trial['split']}, sandbox {trial['sandbox'] or NOT_MEASURED}"
    yield Section(trial["trial"], notes=[where], tone="plain")
    instruction = trial["instruction"] or _none(trial, "not stored: this agent does not read it")
    yield _text("Instruction", instruction, whole=verbose)
    yield from _of_suite(trial["suite"], _none(trial, NO_TESTS))
    yield from _of_candidates(trial, whole=verbose)
    if attempts := trial["failed_attempts"]:
        traces = [one["trace"].rstrip() for one in attempts if verbose and one["trace"]]
        yield _attempts(attempts)._replace(after=traces)
    yield Section("Selection", notes=[_why(trial, whole=verbose)], tone="plain")
    yield Section("Verdict", notes=[_verdict(trial)], tone=VERDICTS[trial["passed"]])
    if wrong := UNEXPECTED.get((trial["agent"], trial["passed"])):
        unsealed = f"to see what they printed: hc-ray unseal {out}/{trial['trial']}"
        kept = "what they print is not kept for a holdout task" if trial["split"] == "holdout" else unsealed
        yield Section("", notes=[f"{wrong}; {kept}"], tone="plain")
    yield Section("", notes=[_cost(trial)])
    for exchange in trial["exchanges"] if verbose else ():
        title = f"{exchange['of']} · {exchange['purpose'] or ''} · {exchange['source']}"
        yield Section(title, notes=[exchange["message"]], tone="plain")


def _none(trial: Data, usual: str) -> str:
    """Why a trial holds none of something: as ``usual``, or since it ended before its agent had read the task."""
    early = trial["passed"] is None and not trial["instruction"] and trial["agent"] not in WITHOUT_MODEL
    return "none: the trial ended before this" if early else usual


def _text(title: str, text: str, *, whole: bool) -> Section:
    """A text, or its beginning and how much more there is."""
    text = text.rstrip("\n")
    shown = text if whole else "\n".join(text.split("\n", LINES)[:LINES])[:CHARACTERS]
    left = len(text) - len(shown)
    return Section(title, notes=[shown, *_more(left, "character")], tone="plain")


def _more(left: int, noun: str) -> list[str]:
    return [f"… and {left:,} more {noun}s (-v shows all)"] if left else []


def _attempts(attempts: Sequence[Data]) -> Section:
    """What failed outside the sandboxes, in its order."""
    rows = [
        (one["stage"], one["number"], one["at"], one["error_type"], (one["error"].strip().splitlines() or [""])[0],
         "no retry" if one["again_after_sec"] is None else f"{one['again_after_sec']:.1f} s")
        for one in attempts
    ]  # fmt: skip
    columns = ("stage", "attempt", "time", "error", "message", "retried after")
    return Section(f"Failures outside the sandboxes: {len(attempts)} attempts", columns, rows, numbers=("attempt",))


def tell_suite(suite: Data | None) -> None:
    """Print the tests with the gate's reasons, and what was understood on the way."""
    for section in _of_suite(suite):
        terminal.tell(section)


def _of_suite(suite: Data | None, none: str = NO_TESTS) -> Iterator[Section]:
    if suite is None:
        yield Section("Self-tests", notes=(none,))
        return
    admitted = sum(test["admitted"] for test in suite["tests"])
    rows = [
        ("yes" if test["admitted"] else "no", test["id"], test["category"], _asks(test),
         test["reason"] or "no reason given")
        for test in suite["tests"]
    ]  # fmt: skip
    title = f"Self-tests: {admitted} admitted of {len(rows)} generated"
    columns = ("admitted", "id", "category", "test", "gate's reason")
    inputs = any(test["expectation"]["kind"] == "unknown" for test in suite["tests"])
    yield Section(title, columns, rows, notes=() if rows else ("no test was written",),
                  after=[INPUTS] if inputs else (), spare=("category",))  # fmt: skip
    counts = ", ".join(f"{category} {admitted}/{made}" for category, (admitted, made) in suite["counts"].items())
    told = {
        "Assumed": suite["assumptions"], "Uncertain": suite["uncertainties"], "Reflections": suite["reflections"],
        "Gate's notes on the whole suite": suite["notes"], "Admitted/generated by category": [counts] if counts else [],
    }  # fmt: skip
    for title, lines in told.items():
        yield Section(title, notes=[f"· {line}" for line in lines])


def expected(expectation: Data) -> str:
    """What a test expects, in words."""
    words = {
        "value": expectation.get("value", ""),
        "rejected": "must be rejected",
        "property": f"{expectation.get('name', '')} {expectation.get('argument', '')}".strip(),
        "unknown": "no expected value (only compared between candidates)",
    }
    return str(words[expectation["kind"]])


def _asks(test: Data) -> str:
    """``double(2) → 4`` and the like, on one line."""
    if test["subject"]["kind"] == "check":
        name = str(test["subject"].get("function") or "").removeprefix("test_").replace("_", " ")
        return f"{name}: “{test['sentence'][:120]}”" if test.get("sentence") else name
    given = test["input"] or test["stdin"] or test["subject"]["path"]
    wanted = "?" if test["expectation"]["kind"] == "unknown" else expected(test["expectation"])
    line = f"{given} → {wanted}".replace("\n", "\\n")
    return line if len(line) <= 70 else line[:67] + "..."


def _of_candidates(trial: Data, *, whole: bool) -> Iterator[Section]:
    candidates: Sequence[Data] = trial["candidates"]
    if not candidates:
        yield Section("Candidates: 0", notes=(_none(trial, "none: this agent uses no model"),))
        return
    total = len(trial["matrix"]["tests"]) if trial["matrix"] else 0
    tests = "self-tests" if trial["suite"] else "inputs run"
    columns = ("", "id", "parent", "form", "plan", "T", "tokens", tests, "selection score", "note")
    rows = [_candidate_row(one, total) for one in candidates]
    yield Section(f"Candidates: {len(candidates)}", columns, rows, numbers=("T", "tokens", tests, "selection score"),
                  spare=("plan", "T", "selection score", "form"))  # fmt: skip
    different = [one for one in candidates if not one.get("duplicate_of")]
    if total:
        yield _matrix(trial["matrix"], {one["id"] for one in different}, tests)
    for one in different:
        yield from _result(one, whole=whole)


def _result(one: Data, *, whole: bool) -> Iterator[Section]:
    """What a candidate made: its difference to its parent, else its files."""
    name = f"{one['id']}{' (submitted)' if one['chosen'] else ''}"
    made = [(f"diff to {one['parent']}", one["diff"])]
    if not one["diff"]:
        # Programs are shorter than the data that they make.
        made = sorted((one["files"] or {}).items(), key=lambda item: (item[0].startswith("/"), len(item[1])))
    odd = {what: f"{what} ({text.removeprefix(NO_TEXT)}" for what, text in made if text.startswith(NO_TEXT)}
    if odd:
        yield _text(f"{name}: what is no text", "\n".join(in_lines(odd, len(odd) * 4 if whole else LINES)), whole=whole)
    texts = [(what, text) for what, text in made if not text.startswith(NO_TEXT)]
    shown = texts if whole else texts[:FILES]
    for what, text in shown:
        yield _text(f"{name}: {what}", text, whole=whole)
    yield Section("", notes=_more(len(texts) - len(shown), "file"), tone="plain")


def _matrix(matrix: Data, shown: Collection[str], tests: str) -> Section:
    """``tests``: what its rows are. Only the candidates in ``shown``: a duplicate's column would repeat another's."""
    columns = [(name, row) for name, row in zip(matrix["candidates"], matrix["cells"], strict=True) if name in shown]
    rows = []
    for index, test in enumerate(matrix["tests"]):
        cells = [row[index] for _, row in columns]
        failure = next((cell["detail"] for cell in cells if cell and cell["outcome"] != "pass" and cell["detail"]), "")
        words = ["not run" if cell is None else cell["outcome"] for cell in cells]
        rows.append((test, *words, _first(failure)[:80]))
    names = ("test", *(name for name, _ in columns), "first failure")
    return Section(f"Pass matrix: {tests} down, candidates across", names, rows)


def _first(failure: str) -> str:
    """What a failure says in one line: the last that adds nothing to one before it, as pytest's do."""
    lines = failure.strip().splitlines()
    return next(
        (line for line in reversed(lines) if line[:1] not in ("", " ", "+", "-", "?")), lines[0] if lines else ""
    )


def _candidate_row(one: Data, tests: int) -> tuple[Any, ...]:
    passed = "not run" if one.get("passed") is None else f"{one['passed']}/{tests}"
    score = "" if one["selection_score"] is None else f"{one['selection_score']:.2f}"
    asked = [one.get(name) for name in ("form", "plan", "temperature", "tokens")]
    return ("*" if one["chosen"] else "", one["id"], one.get("parent"), *asked, passed, score, _note(one))


def _note(candidate: Data) -> str:
    if candidate.get("malformed"):
        return str(candidate["malformed"])
    return f"same as {candidate['duplicate_of']}" if candidate.get("duplicate_of") else ""


def _why(trial: Data, *, whole: bool) -> str:
    selection = trial["selection"]
    if selection is None:
        changed = trial["submission"] or []
        left = 0 if whole else len(changed[FILES:])
        files = ", ".join([*changed[: len(changed) - left], *_more(left, "file")]) or "nothing"
        ended = f"solution/solve.sh: {trial['solution']}; " if trial["solution"] else ""
        return f"no selection took place; {ended}the submission changes {files}"
    why = str(selection.get("why") or "no reason recorded").removeprefix(f"{selection.get('selector')}: ")
    return f"{selection.get('chosen') or 'none'} by {selection.get('selector')}: {why}"


def _verdict(trial: Data) -> str:
    word = {True: "passed", False: "failed", None: "unscored"}[trial["passed"]]
    cause = f": {trial['cause']}" if trial["cause"] not in (None, "", word) and trial["passed"] is not True else ""
    witness = f"; second witness: {trial['witness']}" if trial["witness"] else ""
    return f"{word}{cause} ({trial['grading'] or 'not graded'}{witness})"


def _cost(trial: Data) -> str:
    def number(name: str) -> str:
        if trial[name] is None:
            return f"{name} {NOT_MEASURED}"
        return f"{trial[name]:,.0f} {name if round(trial[name]) != 1 else name.removesuffix('s')}"

    score = NOT_MEASURED if trial["score"] is None else f"{trial['score']:.0f}"
    stop = f", stopped: {trial['stop_reason']}" if trial["stop_reason"] else ""
    counts = ", ".join(map(number, ("turns", "tokens", "seconds")))
    return f"trial score {score}, {counts}{stop}"
