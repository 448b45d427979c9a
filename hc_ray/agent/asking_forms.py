"""Measures which form of actions works best for a model: presents the same situations, which belong to no dataset, in
each form that its server supports."""

import asyncio
from collections.abc import Callable, Sequence

import yaml
from pydantic import TypeAdapter

from hc_ray.agent import environment_probe
from hc_ray.agent.actions import functions, read_actions, read_calls, spoken
from hc_ray.agent.loop import ActionForm, Bounds, opening
from hc_ray.agent.sandbox_forks import SandboxForks
from hc_ray.agent.terminal import Limits, Terminal
from hc_ray.domain.config import SolverConfig
from hc_ray.domain.ports import MakesSandboxes, Model
from hc_ray.domain.prompt import Completion, Malformed, Message, Prompt
from hc_ray.domain.task import Environment, Task
from hc_ray.domain.value import Value, digest_of
from hc_ray.machine.paths import configs_dir
from hc_ray.spec.reading import read_spec
from hc_ray.statistics.estimators import Paired, paired

_ONE = "Only your next answer counts: do all of the task in it. Submit only where the task says so."
_LIMITS = Limits(seconds=20.0, most_seconds=20.0)
_P = 0.05


class Situation(Value):
    """A small job in a workspace of a few files; ``configs/profiles/forms.yaml`` explains the keys."""

    name: str
    instruction: str
    files: dict[str, str] = {}
    check: str = "pass"
    shows: str = ""
    seconds: float = 0.0
    submits: bool = False


class FormFigure(Value):
    """The results of one form."""

    form: str
    answers: int = 0
    read: int = 0
    """Answers that could be parsed."""
    right: int = 0
    tokens: int = 0
    """Prompt plus completion tokens, as the engine counts them."""
    shares: dict[str, tuple[float, ...]] = {}
    """Situation → 1 for each correct answer, 0 for each wrong one."""

    def plus(self, name: str, answer: Completion, read: bool, right: bool) -> "FormFigure":
        """The figures with one more answer."""
        shares = {**self.shares, name: (*self.shares.get(name, ()), float(right))}
        return FormFigure(
            form=self.form, answers=self.answers + 1, read=self.read + read, right=self.right + right,
            tokens=self.tokens + answer.tokens, shares=shares,
        )  # fmt: skip


def chosen(figures: Sequence[FormFigure], default: str) -> tuple[str, Paired]:
    """The form to use, and the other form's difference to the default: the default, unless the other's share of correct
    answers is significantly higher. Compares by situation, since answers to one situation are alike."""
    by_form = {one.form: one.shares for one in figures}
    other = next((form for form in by_form if form != default), default)
    found = paired(by_form[other], by_form[default]) if other != default else Paired()
    better = found.p is not None and found.p < _P and (found.low or 0) > 0
    return (other if better else default), found


def load_forms() -> tuple[Situation, ...]:
    """The shipped situations."""
    text = (configs_dir() / "profiles" / "forms.yaml").read_text("utf-8")
    return TypeAdapter(tuple[Situation, ...]).validate_python(yaml.safe_load(text))


async def measure(
    model: Model,
    forms: Sequence[ActionForm],
    items: Sequence[Situation],
    place: MakesSandboxes,
    config: SolverConfig,
    room: int,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[FormFigure, ...]:
    """Present every situation in every form at each of the search's temperatures, one situation at a time, and perform
    the answers' actions in forks. ``room``: maximum tokens of an answer; ``tell`` receives a line per situation. Raises
    ``EngineError`` and ``SandboxError``."""
    tokens = min(config.max_answer_tokens, room)
    figures = {form: FormFigure(form=form) for form in forms}
    for item in items:
        task = Task(name="forms", digest=digest_of(item), instruction=item.instruction, environment=Environment())
        forks = SandboxForks(place, task, "forms")
        try:
            if item.files:
                await (await forks.base()).put({path: text.encode() for path, text in item.files.items()})
            spec = await environment_probe.look_around(read_spec(item.instruction, Environment()), forks)
            told = environment_probe.block(spec, task, Bounds(turns=1, tokens=tokens, answer_tokens=tokens))
            openings = [(form, opening(form, item.instruction, told, _ONE)) for form in forms]
            asked = [
                (form, one) for form, said in openings for one in _prompts(form, said, config.temperatures, tokens)
            ]
            answers = await asyncio.gather(*(model.complete(prompt) for _, prompt in asked))
            for (form, prompt), answer in zip(asked, answers, strict=True):
                came = await _acted(item, forks, f"{form}{prompt.seed}", answer)
                figures[form] = figures[form].plus(item.name, answer, *came)
        finally:
            await forks.close()
        shares = {form: sum(one.shares[item.name]) / len(one.shares[item.name]) for form, one in figures.items()}
        tell(f"  {item.name}: " + ", ".join(f"{form} {share:.0%} correct" for form, share in shares.items()))
    return tuple(figures.values())


def _prompts(form: ActionForm, said: tuple[str, str], temperatures: Sequence[float], tokens: int) -> list[Prompt]:
    messages = (Message(role="system", content=said[0]), Message(role="user", content=said[1]))
    return [
        Prompt(role="solver", purpose="calibration", messages=messages, max_tokens=tokens, seed=seed,
               temperature=temperature, tools=functions() if form == "calls" else ())
        for seed, temperature in enumerate(temperatures)
    ]  # fmt: skip


async def _acted(item: Situation, forks: SandboxForks, name: str, answer: Completion) -> tuple[bool, bool]:
    """Whether an answer could be parsed as a lineage would (a cut answer is not run), and whether its actions were
    correct."""
    actions = read_calls(answer.tool_calls) if answer.tool_calls else read_actions(spoken(answer.text))
    if answer.finish_reason == "length" or isinstance(actions, Malformed) or not actions:
        return False, False
    limit = max(action.seconds or 0.0 for action in actions)
    if any(action.name == "submit" for action in actions) != item.submits or limit < item.seconds:
        return True, False
    async with forks.fork(name, {}) as fork:
        terminal = Terminal(fork, _LIMITS)
        shown = [(await terminal.perform(action)).says for action in actions if action.name != "submit"]
        done = await fork.exec(["python3", "-B", "-c", item.check], timeout=_LIMITS.seconds)
    return True, done.exit_code == 0 and item.shows in "\n".join(shown)
