"""In which form a model is best asked: the same situations, which belong to no dataset, in each form that its server
takes. Here what is counted, and the forms of actions; those of tests stand in ``selftests.suite_forms``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import ValidationError

from hc_ray.agent import environment_probe
from hc_ray.agent.actions import Action, functions, read_actions, read_calls, spoken
from hc_ray.agent.loop import ActionForm, Opening
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.agent.terminal import Limits, Terminal
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.ports import Model, Sandbox, SandboxPlace
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import configs_dir
from hc_ray.spec.reading import read_spec
from hc_ray.spec.spec import Spec
from hc_ray.statistics.estimators import Paired, paired

_ONE = "Only your next answer counts: do all of the task in it. Submit only where the task says so."
_LIMITS = Limits(seconds=20.0, most_seconds=20.0)
_TOLD = Limits()
_P = 0.05


class Situation(Value):
    """Something to be done in a workspace of a few files."""

    name: str
    instruction: str
    files: dict[str, str] = {}


class ActionItem(Situation):
    """One to act in, with what must have come of it."""

    check: str = "pass"
    """Python that runs in the workspace afterwards."""
    shows: str = ""
    """What the results of the actions hold."""
    seconds: float = 0.0
    """The time limit that a command asks for at least."""
    submits: bool = False


class SuiteItem(Situation):
    """One to write tests for, with the files of a right and of a wrong result."""

    right: dict[str, str]
    wrong: dict[str, str]


class Items(Value):
    """Everything that is asked."""

    actions: tuple[ActionItem, ...]
    tests: tuple[SuiteItem, ...]


class Judged(NamedTuple):
    """What one answer was worth: things that it made (actions, or tests) count by their share that is right."""

    item: str
    answer: Completion
    made: int = 0
    """0 for an answer that could not be read."""
    right: int = 0


class FormFigure(Value):
    """How well a form worked."""

    what: Literal["actions", "tests"]
    form: str
    answers: int
    read: int
    """Answers that hold something that the product can read."""
    made: int
    right: int
    tokens: int
    """Of prompts and answers together, as the engine counts them."""
    shares: dict[str, tuple[float, ...]]
    """Situation → the share of each answer that was right."""

    @property
    def tokens_each(self) -> float | None:
        """Tokens for each right answer (actions) or test."""
        return self.tokens / self.right if self.right and self.tokens else None


def figure(what: Literal["actions", "tests"], form: str, judged: Sequence[Judged]) -> FormFigure:
    """The sum of a form's answers."""
    shares: dict[str, tuple[float, ...]] = {}
    for one in judged:
        shares[one.item] = (*shares.get(one.item, ()), one.right / max(1, one.made))
    return FormFigure(
        what=what, form=form, answers=len(judged), read=sum(one.made > 0 for one in judged),
        made=sum(one.made for one in judged), right=sum(one.right for one in judged),
        tokens=sum(one.answer.tokens for one in judged), shares=shares,
    )  # fmt: skip


def chosen(figures: Sequence[FormFigure], default: str) -> tuple[str, Paired]:
    """The default, unless another form's share of right is above it by more than chance would make it; and how far
    the other is from the default. Situations are what is compared: answers to one are alike."""
    by_form = {one.form: one for one in figures}
    other = next((form for form in by_form if form != default), default)
    if default not in by_form or other == default:
        return default, Paired()
    found = paired(by_form[other].shares, by_form[default].shares)
    better = (found.low or 0) > 0 and found.p is not None and found.p < _P
    return (other if better else default), found


def load_forms() -> Items:
    """The shipped situations. Raises ``ConfigError`` when their file cannot be read."""
    path = configs_dir() / "profiles" / "forms.yaml"
    try:
        return Items.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path}: not valid situations: {' '.join(str(error).split())[:200]}") from None


def done(item: Situation, judged: Mapping[Any, Sequence[Judged]]) -> str:
    """A line that says what came of a situation in each form."""
    found = {form: [one for one in answers if one.item == item.name] for form, answers in judged.items()}
    return f"  {item.name}: " + ", ".join(
        f"{form} {sum(one.right for one in them)} right of {sum(one.made for one in them)}"
        for form, them in found.items()
    )


@contextlib.asynccontextmanager
async def workplace(place: SandboxPlace, item: Situation) -> AsyncIterator[tuple[Task, Spec, SandboxForks]]:
    """The situation as a task, with forks of its workspace."""
    task = Task(name="forms", digest=digest_of(item), instruction=item.instruction, environment=Environment())
    forks = SandboxForks(place, task, "forms")
    try:
        if item.files:
            await (await forks.base()).put({path: text.encode() for path, text in item.files.items()})
        yield task, await environment_probe.look_around(read_spec(item.instruction, Environment()), forks), forks
    finally:
        await forks.close()


_Key = TypeVar("_Key")


async def answers(model: Model, prompts: Mapping[_Key, Prompt]) -> dict[_Key, Completion]:
    """Everything asked at once."""
    return dict(zip(prompts, await asyncio.gather(*map(model.complete, prompts.values())), strict=True))


async def measure_actions(
    model: Model,
    items: Sequence[ActionItem],
    *,
    place: SandboxPlace,
    forms: Sequence[ActionForm],
    config: SolverConfig,
    room: int,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[FormFigure, ...]:
    """Ask every situation in every form at each of the search's temperatures; what an answer asks for is performed in a
    fork. ``room``: tokens of an answer at most; ``tell`` hears of every situation that is done. Raises ``EngineError``
    and ``SandboxError``."""
    judged: dict[ActionForm, list[Judged]] = {form: [] for form in forms}
    tokens = min(config.max_answer_tokens, room)
    for item in items:
        async with workplace(place, item) as (task, spec, forks):
            told = environment_probe.block(spec, task, _TOLD, turns=1, tokens=tokens, answer=tokens)
            opening = Opening(instruction=item.instruction, environment=told, advice=_ONE)
            prompts = {
                (form, seed): _ask(opening, form, seed=seed, temperature=temperature, max_tokens=tokens)
                for form in forms
                for seed, temperature in enumerate(config.temperatures)
            }
            for (form, seed), answer in (await answers(model, prompts)).items():
                actions = _read(answer)
                right = False
                if actions:
                    async with forks.fork(f"{form}{seed}", {}) as fork:
                        right = await _right(item, actions, fork)
                judged[form].append(Judged(item.name, answer, int(bool(actions)), int(right)))
        tell(done(item, judged))
    return tuple(figure("actions", form, judged[form]) for form in forms)


def _ask(opening: Opening, form: ActionForm, *, seed: int, temperature: float, max_tokens: int) -> Prompt:
    system, task = opening.messages(form)
    return Prompt(
        role="solver", purpose="calibration", max_tokens=max_tokens, temperature=temperature, seed=seed,
        messages=(Message(role="system", content=system), Message(role="user", content=task)),
        tools=functions() if form == "calls" else (),
    )  # fmt: skip


def _read(answer: Completion) -> tuple[Action, ...]:
    """The actions of an answer as a lineage reads it; none of one that was cut or cannot be read."""
    if answer.finish_reason == "length":
        return ()
    read = read_calls(answer.tool_calls) if answer.tool_calls else read_actions(spoken(answer.text))
    return () if isinstance(read, Malformed) else read


async def _right(item: ActionItem, actions: Sequence[Action], sandbox: Sandbox) -> bool:
    limit = max((action.seconds or 0.0 for action in actions), default=0.0)
    if any(action.name == "submit" for action in actions) != item.submits or limit < item.seconds:
        return False
    terminal = Terminal(sandbox, _LIMITS)
    shown = [(await terminal.perform(action)).says for action in actions if action.name != "submit"]
    done = await sandbox.exec(["python3", "-B", "-c", item.check], timeout=_LIMITS.seconds)
    return done.exit_code == 0 and item.shows in "\n".join(shown)
