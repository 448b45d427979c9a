"""How a model is best asked for a file in one answer: form × temperature × stop rules, in situations that belong to no
dataset."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import yaml
from pydantic import TypeAdapter, ValidationError

from hc_ray.agent import prompt_formats
from hc_ray.agent.asking_forms import FormFigure, Question, Situation
from hc_ray.agent.deliverable import deliverable_of
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.domain.config import Form
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import CALIBRATION, Profile
from hc_ray.domain.prompt import Completion, Malformed, Prompt
from hc_ray.domain.task import Task
from hc_ray.machine.paths import configs_dir
from hc_ray.spec.spec import Spec
from hc_ray.statistics.estimators import paired

STOPS: tuple[str, ...] = ("\ndef ", "\nclass ", "\nprint", "\nif __name__", "\nassert", "\n#", "\n\n\n")
"""Stop rules that are tried: where a model that has finished its function tends to run on."""
_CHECK_SECONDS, _MAX_TOKENS, _P = 10.0, 160, 0.05


class Way(NamedTuple):
    """One way of asking."""

    form: Form
    temperature: float
    stops: bool

    def __str__(self) -> str:
        return f"{self.form}{' with stops' if self.stops else ''} T {self.temperature:g}"


def ways(temperatures: Sequence[float] = (0.0, 0.3, 0.5, 0.7)) -> tuple[Way, ...]:
    """Every way that is tried."""
    asked: tuple[tuple[Form, bool], ...] = (("chat", False), ("completion", False), ("completion", True))
    return tuple(Way(form, temperature, stops) for form, stops in asked for temperature in temperatures)


def load_items() -> tuple[Situation, ...]:
    """The shipped functions to write. Raises ``ConfigError`` when their file cannot be read."""
    path = configs_dir() / "models" / CALIBRATION
    try:
        return TypeAdapter(tuple[Situation, ...]).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path}: not valid calibration items: {' '.join(str(error).split())[:200]}") from None


def file_questions(
    tried: Sequence[Way], samples: int = 4
) -> Callable[[Situation, Task, Spec, SandboxForks], Sequence[Question]]:
    """Every way so many times (once at temperature 0, where samples are alike). A stop rule only cuts an answer, so one
    sample shows the effect of having it and of not having it."""

    def questions(item: Situation, task: Task, spec: Spec, forks: SandboxForks) -> list[Question]:
        deliverable = deliverable_of(spec)
        found, prompts = [], dict[tuple[Form, float, int], Prompt]()
        for way in tried:
            for seed in range(samples if way.temperature > 0 else 1):
                prompt = prompts.setdefault((way.form, way.temperature, seed), prompt_formats.ask(
                    item.instruction, deliverable, form=way.form, plan="plain", hint="", seed=seed,
                    temperature=way.temperature, max_tokens=_MAX_TOKENS, profile=Profile(), purpose="calibration",
                ))  # fmt: skip
                read = partial(prompt_formats.read, prompt=prompt, deliverable=deliverable)
                found.append(Question(str(way), prompt, partial(_solved, item, forks, read, way.stops)))
        return found

    return questions


async def _solved(
    item: Situation,
    forks: SandboxForks,
    read: Callable[[Completion], dict[str, str] | Malformed],
    stops: bool,
    answer: Completion,
) -> tuple[int, int]:
    """Whether an answer holds a file, and whether that passes its check."""
    files = read(_cut(answer) if stops else answer)
    if isinstance(files, Malformed):
        return 0, 0
    sandbox = await forks.base()
    try:
        await sandbox.put({path: text.encode() for path, text in files.items()})
    except UnicodeEncodeError:  # half a surrogate pair: no file could hold it
        return 1, 0
    ended = await sandbox.exec(["python3", "-B", "-c", item.check], timeout=_CHECK_SECONDS)
    return 1, int(ended.exit_code == 0)


def _cut(answer: Completion) -> Completion:
    places = [place for stop in STOPS if (place := answer.text.find(stop)) >= 0]
    if not places:
        return answer
    return answer.model_copy(update={"text": answer.text[: min(places)], "finish_reason": "stop"})


def told_apart(figures: Sequence[FormFigure]) -> bool:
    """Whether chat and completion differ by more than chance would make it, situation by situation."""
    shares: dict[str, dict[str, tuple[float, ...]]] = {"chat": {}, "completion": {}}
    for one in figures:
        form, temperature, _ = one.form.partition(" T ")
        for name, more in one.shares.items() if temperature and form in shares else ():
            shares[form][name] = (*shares[form].get(name, ()), *more)
    found = paired(shares["chat"], shares["completion"])
    return found.p is not None and found.p < _P


def profile_of(figures: Sequence[FormFigure], tried: Sequence[Way], note: str = "") -> Profile:
    """The form with the highest mean rate, its best temperature, and the stop rules where they do not cost a pass.
    ``note`` (date, machine, engine) goes into ``Profile.measured``."""
    by_name = {one.form: one for one in figures}
    rates = {way: by_name[str(way)].right / by_name[str(way)].answers for way in tried}

    def mean(form: Form, stops: bool) -> float:
        found = [rate for way, rate in rates.items() if (way.form, way.stops) == (form, stops)]
        return sum(found) / len(found)

    with_stops = mean("completion", True) >= mean("completion", False)
    form: Form = "completion" if mean("completion", with_stops) > mean("chat", False) else "chat"
    kept = [way for way in tried if way.form == form and way.stops == (with_stops and form == "completion")]
    best = max(kept, key=lambda way: (rates[way], -way.temperature))
    told = [f"{one.form}: {one.right}/{one.answers}" for one in figures]
    return Profile(
        form=form,
        test_form=form,
        stop={"completion": STOPS} if with_stops else {},
        temperature_best_single=best.temperature,
        measured="; ".join([note, *told] if note else told),
    )
