"""How a model is best asked: form × temperature × stop rules on calibration items that belong to no dataset."""

import asyncio
import math
from collections.abc import Callable, Sequence

import yaml
from pydantic import TypeAdapter, ValidationError

from hc_ray.agent import prompt_formats
from hc_ray.agent.deliverable import Deliverable, deliverable_of
from hc_ray.domain.config import Form
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Model, Sandbox, SandboxPlace
from hc_ray.domain.profile import CALIBRATION, Profile
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import configs_dir
from hc_ray.spec.reading import read_spec

FORMS: tuple[Form, ...] = ("chat", "completion")
STOPS: tuple[str, ...] = ("\ndef ", "\nclass ", "\nprint", "\nif __name__", "\nassert", "\n#", "\n\n\n")
"""Stop rules that are tried: where a model that has finished its function tends to run on."""
_CHECK_SECONDS = 10.0


class CalibrationItem(Value):
    """One tiny function to write, with what checks it."""

    name: str
    instruction: str
    reference: str
    check: str


class Figure(Value):
    """How often one way of asking worked."""

    form: Form
    temperature: float
    stops: bool
    samples: int
    passed: int

    @property
    def rate(self) -> float:
        return self.passed / self.samples


class Calibration(Value):
    """What was measured, and the profile that follows from it."""

    figures: tuple[Figure, ...]
    profile: Profile

    @property
    def told_apart(self) -> bool:
        """Whether the two forms differ by more than chance would (two proportions, 5 %)."""
        totals = {}
        for form in FORMS:
            seen = [one for one in self.figures if one.form == form and not one.stops]
            totals[form] = sum(one.passed for one in seen), sum(one.samples for one in seen)
        (a, n), (b, m) = totals.values()
        pooled = (a + b) / (n + m)
        error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
        return abs(a / n - b / m) > 1.96 * error


def load_items() -> tuple[CalibrationItem, ...]:
    """The shipped calibration items. Raises ``ConfigError`` when their file cannot be read."""
    path = configs_dir() / "models" / CALIBRATION
    try:
        return TypeAdapter(tuple[CalibrationItem, ...]).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path}: not valid calibration items: {' '.join(str(error).split())[:200]}") from None


async def measure_profile(
    model: Model,
    items: Sequence[CalibrationItem],
    *,
    place: SandboxPlace,
    temperatures: Sequence[float] = (0.0, 0.3, 0.5, 0.7),
    samples: int = 4,
    max_tokens: int = 160,
    note: str = "",
    tell: Callable[[Figure], None] = lambda figure: None,
) -> Calibration:
    """Ask every item in both forms at every temperature (once at 0, where samples are alike) and take the best.

    The answers run in a sandbox of ``place``. ``note`` (date, machine, engine) goes into ``Profile.measured``; ``tell``
    gets each figure as it is found. Raises ``EngineError`` and ``SandboxError``."""
    task = Task(name="calibration", digest=digest_of([item.name for item in items]), instruction="",
                environment=Environment())  # fmt: skip
    sandbox = await place.create(task, "calibration")
    try:
        figures = []
        for form in FORMS:
            for temperature in temperatures:
                figures += await _solve_figures(model, items, sandbox, form, temperature, samples, max_tokens, tell)
    finally:
        await sandbox.close()
    return Calibration(figures=tuple(figures), profile=_profile(figures, note))


async def _solve_figures(
    model: Model,
    items: Sequence[CalibrationItem],
    sandbox: Sandbox,
    form: Form,
    temperature: float,
    samples: int,
    max_tokens: int,
    tell: Callable[[Figure], None],
) -> list[Figure]:
    asked = [
        (item, deliverable, _ask(item, deliverable, form, temperature, seed, max_tokens))
        for item in items
        for deliverable in [deliverable_of(read_spec(item.instruction, Environment()))]
        for seed in range(samples if temperature > 0 else 1)
    ]
    answers = await asyncio.gather(*(model.complete(prompt) for _, _, prompt in asked))
    found = []
    # A stop rule only cuts an answer, so one sample shows the effect of having it and of not having it.
    for stops in (False, True) if form == "completion" else (False,):
        passed = 0
        for (item, deliverable, prompt), answer in zip(asked, answers, strict=True):
            files = prompt_formats.read(_cut(answer) if stops else answer, prompt, deliverable)
            if not isinstance(files, Malformed):
                passed += await _holds(sandbox, next(iter(files.values())), item.check)
        found.append(Figure(form=form, temperature=temperature, stops=stops, samples=len(asked), passed=passed))
        tell(found[-1])
    return found


def _ask(
    item: CalibrationItem, deliverable: Deliverable, form: Form, temperature: float, seed: int, max_tokens: int
) -> Prompt:
    return prompt_formats.ask(
        item.instruction, deliverable, form=form, plan="plain", hint="", seed=seed, temperature=temperature,
        max_tokens=max_tokens, profile=Profile(), purpose="calibration",
    )  # fmt: skip


def _cut(answer: Completion) -> Completion:
    places = [place for stop in STOPS if (place := answer.text.find(stop)) >= 0]
    if not places:
        return answer
    return answer.model_copy(update={"text": answer.text[: min(places)], "finish_reason": "stop"})


async def _holds(sandbox: Sandbox, solution: str, check: str) -> bool:
    try:
        await sandbox.put({"solution.py": solution.encode(), "check.py": check.encode()})
    except UnicodeEncodeError:  # half a surrogate pair: no file could hold it
        return False
    ended = await sandbox.exec(["python3", "-B", "check.py"], timeout=_CHECK_SECONDS)
    return ended.exit_code == 0


def _profile(figures: Sequence[Figure], note: str) -> Profile:
    """The form with the highest mean rate, its best temperature, and the stop rules where they do not cost a pass."""
    mean = {}
    for way in (("chat", False), ("completion", False), ("completion", True)):
        rates = [figure.rate for figure in figures if (figure.form, figure.stops) == way]
        mean[way] = sum(rates) / len(rates)
    with_stops = mean["completion", True] >= mean["completion", False]
    completion = mean["completion", with_stops]
    form: Form = "completion" if completion > mean["chat", False] else "chat"
    kept = [one for one in figures if one.form == form and one.stops == (with_stops and form == "completion")]
    best = max(kept, key=lambda figure: (figure.rate, -figure.temperature))
    return Profile(
        form=form,
        test_form=form,
        stop={"completion": STOPS} if with_stops else {},
        temperature_best_single=best.temperature,
        measured=_told(figures, note),
    )


def _told(figures: Sequence[Figure], note: str) -> str:
    shown = [
        f"{one.form}{' with stops' if one.stops else ''} T {one.temperature:g}: {one.passed}/{one.samples}"
        for one in figures
    ]
    return "; ".join([note, *shown] if note else shown)
