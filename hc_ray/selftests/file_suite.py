"""Writes a suite as whole test files, for any task: rounds of a tester that sees instruction and environment, then the
gate with an independent second reading, which drops checks that a sentence of the task contradicts."""

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Mapping, Sequence

from hc_ray.agent import environment_probe
from hc_ray.agent.budget import payable
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.domain.ports import Sandbox
from hc_ray.domain.prompt import Malformed
from hc_ray.domain.suite import SelfTest
from hc_ray.domain.task import EnvironmentView
from hc_ray.domain.trial import seed_of
from hc_ray.selftests import file_tester
from hc_ray.selftests.coverage import quoted_in
from hc_ray.selftests.file_tester import Reading
from hc_ray.selftests.shown_examples import shown_tests
from hc_ray.selftests.writer import OWNER, Writer
from hc_ray.spec.spec import Spec

_READING_SHARE = 0.35
"""The share of the budget reserved for the second reading."""
_UNSUPPORTED = 0.5
"""Factor on a check's weight if a second reading finds no support for it in the task."""
_SUPPORTED = 0.75
"""Confidence of a check that a second reading supports by a quotation."""
_HEADS, _HEAD, _ALL_HEADS = 12, 4000, 16_000
"""The most files of the environment in a tester's prompt, and the most characters of each and of all."""
_WHOLE = 1.2
"""A file up to this many times longer than its room is shown whole, since its end is worth more."""
_ALIKE, _RUN = 5, 4
"""Of lines that differ only in numbers, this many are shown; of more in a row, only their count."""
_NUMBER = re.compile(r"[\w+/=-]{40,}|\d+")
"""A number, or its like in another encoding, as in keys and certificates."""
_READABLE = re.compile(rb"[\t -~]{6,}")
_CONTROLS = re.compile(rb"[\0-\x07\x0e-\x1a\x1c-\x1f]")
"""Control characters that do not occur in text; without white space, backspaces and terminals' escapes."""


async def first_files(spec: Spec, untouched: Sandbox) -> dict[str, bytes]:
    """The heads of the files for a tester's prompt, first those that the instruction names."""
    named = [file.path for file in spec.files if file.exists or file.located]
    held = [one.path for one in (*spec.snapshot.files, *spec.snapshot.outside) if one.lines is not None]
    found: dict[str, bytes] = {}
    for path in dict.fromkeys([*named, *held]):
        if len(found) == _HEADS:
            break
        if data := await untouched.get(path, limit=4 * _HEAD):
            found[path] = data
    return found


class FileSuiteWriter(Writer):
    """Writes whole test files."""

    lists = True

    async def _made(self) -> list[SelfTest]:
        shown_files = heads(await first_files(self.spec, await self.forks.base()))
        self._seen = file_tester.Seen(
            spec=self.spec, environment=environment_probe.describe(self.spec, self.task),
            files="\n\n".join(filter(None, [states(self.spec.snapshot), shown_files])),
            max_tokens=self.config.answer_tokens, temperature=self.config.temperature,
        )  # fmt: skip
        self._assumed: tuple[str, ...] = ()
        # Take only examples from the instruction: a named file is not necessarily a deliverable.
        examples = () if self.known else shown_tests(self.spec, deliverable_of(self.spec))
        shown = [test for test in examples if test.subject.kind != "file"]
        return [*shown, *await self._ask_in_rounds(shown)]

    def _assumptions(self, kept: Sequence[SelfTest]) -> tuple[str, ...]:
        return self._assumed

    # Asking

    async def _ask_in_rounds(self, shown: Sequence[SelfTest]) -> list[SelfTest]:
        found: list[SelfTest] = []
        reserve = int(self.purse.limit * _READING_SHARE) if self.config.second_reading else 0
        for number in range(1, self.config.rounds + 1):
            asking = self.askings[(number - 1) % len(self.askings)]
            known = [test for test in (*self.known, *found) if test.subject.kind == "check"]
            seed = seed_of(self.task.digest, self.seed, "tester", self.place, "file", number)
            prompt = file_tester.ask(self._seen, seed, known=known, reflection=self.reflected)
            if not await payable([(asking, prompt)], reserve=reserve if number > 1 else 0):
                break
            (answer,) = await asking.all([(OWNER, prompt)])
            written = file_tester.read(answer, self.spec)
            if isinstance(written, Malformed):
                self.notes.append(f"round {number}: {written.reason}")
            else:
                self._assumed += written.assumptions
                self.uncertainties += written.uncertainties
                label = asking.role.label
                old = {test.subject.function for test in self.known}
                new = {test.subject.function: test.model_copy(update={"tester": label}) for test in written.tests
                       if test.subject.function not in old}  # fmt: skip
                found = [new.pop(test.subject.function, test) for test in found] + [*new.values()]
            so_far = [*shown, *found]
            if len(so_far) >= self.config.total_min and not self._short(so_far, [test.category for test in so_far]):
                break  # each category that the tester sees to apply has enough: what else there is was asked for
            self._reflect(so_far, self._short(so_far), number)
        return found

    # The second reading

    async def _read_again(self, tests: Sequence[SelfTest]) -> list[SelfTest]:
        """Have the checks compared with the task again; drops those that a quotation contradicts."""
        checks = [test for test in tests if test.subject.kind == "check" and test.discriminates]
        if not checks or not self.config.second_reading:
            return list(tests)
        asking = self.askings[-1]
        seed = seed_of(self.task.digest, self.seed, "tester", self.place, "reading")
        prompt = file_tester.ask_reading(self._seen, seed, checks)
        if not await payable([(asking, prompt)]):
            self.notes.append("the budget did not pay for a second reading")
            return list(tests)
        (answer,) = await asking.all([(OWNER, prompt)])
        readings = file_tester.read_readings(answer)
        return [one for test in tests if (one := self._settled(test, readings)) is not None]

    def _settled(self, test: SelfTest, readings: Mapping[str, Reading]) -> SelfTest | None:
        reading = readings.get(test.subject.function or "")
        if reading is None or test.subject.kind != "check" or not test.discriminates:
            return test
        quoted = quoted_in(reading.quote, self.spec.instruction)
        if reading.verdict == "wrong" and quoted:
            self.reasons[test.id] = f"a second reading contradicts it: “{reading.quote[:120]}” ({reading.reason[:80]})"
            return None
        if reading.verdict == "right" and quoted:
            self.reasons[test.id] = "admitted: a second reading supports it"
            return test.model_copy(update={"confidence": _SUPPORTED})
        if reading.verdict == "broken":
            why = (reading.reason or reading.quote)[:80]
            self.reasons[test.id] = f"judges nobody: a second reading says that it is broken ({why})"
            return test.model_copy(update={"discriminates": False})
        self.reasons[test.id] = f"weighs less: a second reading finds no sentence for it ({reading.verdict})"
        return test.model_copy(update={"weight": round(test.weight * _UNSUPPORTED, 4)})


def states(view: EnvironmentView) -> str:
    """The state of git repositories, which no file shows."""
    told = [f"{path}:\n{state}" for path, state in view.repositories.items()]
    return (
        "\n\n".join(["Its git repositories, each with its status and the last commits of all refs:", *told])
        if told
        else ""
    )


def heads(files: Mapping[str, bytes]) -> str:
    """The heads of files, cut so that all can be shown. For binary files, shows readable parts like ``strings``, so
    that a database reveals its tables."""
    texts: dict[str, str] = {}
    first: dict[bytes, str] = {}
    for path, data in files.items():
        if data and first.setdefault(data, path) != path:
            texts[path] = f"(the same as {first[data]})"
        elif not _CONTROLS.search(data):
            try:
                texts[path] = getincrementaldecoder("utf-8")().decode(data)  # it may be cut within a character
            except UnicodeDecodeError:
                texts[f"{path} (no UTF-8; shown as ISO 8859-1)"] = data.decode("latin-1")
        else:
            texts[f"{path} (no text; what can be read in it)"] = b"\n".join(_READABLE.findall(data)).decode()
    seen: Counter[str] = Counter()
    texts = {name: _without_rows(text, seen) for name, text in texts.items()}
    left, parts = _ALL_HEADS, {}
    shortest = sorted(filter(texts.get, texts), key=lambda name: len(texts[name]))
    for count, name in zip(range(len(shortest), 0, -1), shortest, strict=True):  # long files get what short ones leave
        text, room = texts[name], min(_HEAD, left // count)
        room = len(text) if len(text) <= _WHOLE * room else room
        left -= min(room, len(text))
        parts[name] = f"{name}:\n{text[:room]}" + (f"\n[… cut after {room} characters]" if len(text) > room else "")
    return (
        "\n\n".join(["Its files, long ones cut:", *(parts[name] for name in texts if name in parts)]) if parts else ""
    )


def _without_rows(text: str, seen: Counter[str]) -> str:
    """A text without rows of data that tell no more of its form, which would take the room of other files. ``seen``:
    how often each form of a line was seen in files before it."""
    kept: list[str] = []
    rows: list[str] = []
    for number, line in enumerate([*text.splitlines(keepends=True), ""]):
        form = _NUMBER.sub("0", line)
        seen[form] += 1
        if number > 1 and form != line and seen[form] > _ALIKE:
            rows.append(line)
            continue
        kept += [f"[… {len(rows)} lines like others]\n"] if len(rows) >= _RUN else rows
        rows = []
        kept.append(line)
    return "".join(kept)
