"""The one table of knobs: who may turn them, how far, and where they have an effect. Defaults, types, meanings and
limits are those of the fields in ``domain.config``; the box of a climb lies within them."""

import typing
from collections.abc import Callable
from functools import cache, cached_property, reduce
from typing import Any, Literal, NamedTuple

from hc_ray.agent.prompt_formats import plans
from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.profile import Profile
from hc_ray.domain.value import Value, changed

Kind = Literal["whole", "number", "ladder", "switch", "choice", "lead", "text"]
"""``ladder``: numbers that move together; ``lead``: names, of which the first is chosen."""


class Site(Value):
    """The context of a knob: the whole config (completed by its profile), and the solver's capabilities."""

    solver: SolverConfig
    profile: Profile = Profile()
    tools: bool = False
    """Whether the solver's server is known to take native tool calls; a profile that asks for them was measured so."""

    @cached_property
    def traits(self) -> frozenset[str]:
        """The traits of this site, of those that knobs need."""
        solver, testgen = self.solver, self.solver.testgen
        loop, rounds, asked = solver.agent_style == "loop", solver.max_rounds > 1, testgen.budget_tokens > 0
        repairs = solver.repairs > 0 and (loop or rounds)
        held = {
            "profile capable": self.profile.name != "tiny",
            "style loop": loop, "style direct": not loop,
            "native tool calls": self.tools or self.profile.settings.get("solver.actions") == "calls",
            "use_skills": solver.use_skills,
            "more than one round": rounds,
            "style direct or more than one round": not loop or rounds,
            "style loop or more than one round": loop or rounds,
            "repairs, or new starts after more than one round": repairs or (not loop and rounds),
            "several candidates": not loop or rounds or solver.repairs > 0,
            "several plans": len(solver.plans) > 1,
            "more than one fresh candidate": _fresh(self) > 1,
            "more candidates than greedy ones": _fresh(self) > _greedy(self) or (repairs and not loop),
            "a tester's budget": asked,
            "test style files": testgen.style == "files",
            "test style lines": testgen.style == "lines",
            "test style lines or more than one round of tests":
                testgen.style == "lines" or (asked and testgen.rounds > 1),
            "gate basic": testgen.gate == "basic",
        }  # fmt: skip
        return frozenset(trait for trait, holds in held.items() if holds)


class Knob(NamedTuple):
    """A line of the table."""

    key: str
    """Dotted, as in a config file."""
    box: tuple[float, float, float] | None = None
    """For a number: the climb's lowest and highest value, and the guardrail, the largest step of one change."""
    needs: tuple[str, ...] = ()
    """The traits of a site that it needs to have an effect on ``hc``."""
    acts: Callable[[Site], Any] | None = None
    """The effective value, if different values can have the same effect."""
    turner: Literal["climb", "sweep"] = "climb"

    @property
    def kind(self) -> Kind:
        annotation = field_of(self.key).annotation
        if typing.get_origin(annotation) is tuple:
            return "ladder" if self.box else "lead"
        simple: dict[Any, Kind] = {bool: "switch", float: "number", str: "text"}
        return "choice" if typing.get_origin(annotation) is Literal else simple.get(annotation, "whole")

    @property
    def options(self) -> tuple[Any, ...]:
        """The options; empty for numbers and texts."""
        if self.kind == "choice":
            return typing.get_args(field_of(self.key).annotation)
        return {"switch": (False, True), "lead": plans()}.get(self.kind, ())

    @property
    def meaning(self) -> str:
        """The field's own description."""
        return " ".join(field_of(self.key).description.split())

    def lacks(self, site: Site) -> tuple[str, ...]:
        """The traits that it lacks for an effect here."""
        return tuple(trait for trait in self.needs if trait not in site.traits)

    def at(self, solver: SolverConfig) -> Any:
        """Its value in a config, as JSON has it."""
        value: Any = reduce(getattr, self.key.removeprefix("solver.").split("."), solver)
        return list(value) if isinstance(value, tuple) else value

    def place(self, value: Any) -> Any:
        """A value as one number or one option: a ladder's mean, the name that leads."""
        if not isinstance(value, list | tuple) or not value:
            return value
        return sum(value) / len(value) if self.kind == "ladder" else value[0] if self.kind == "lead" else value


def _fresh(site: Site) -> int:
    """Candidates that begin anew, at most."""
    solver = site.solver
    if solver.agent_style == "loop":
        return 1 + (solver.max_rounds - 1) * solver.samples
    return solver.samples + (solver.max_rounds - 1) * max(solver.samples, solver.samples_max)


def _greedy(site: Site) -> int:
    return min(max(1, site.solver.greedy), len(site.solver.plans))


def _axis(key: str, *needs: str) -> Knob:
    """Settings that spend, ask for verdicts, or were measured with a model's profile, which are fixed in a climb."""
    return Knob(key, None, needs, turner="sweep")


_TABLE = (
    Knob("solver.agent_style", None, ("profile capable",)),
    Knob("solver.actions", None, ("style loop", "native tool calls")),
    Knob("solver.observation_chars", (1000, 30_000, 2000), ("style loop",)),
    Knob("solver.tournament", None, ("style loop", "more than one round")),
    Knob("solver.use_skills"),
    Knob("solver.temperatures", (0, 1.5, 0.1), ("more candidates than greedy ones",)),
    Knob("solver.greedy", (1, 6, 1), ("several plans", "more than one fresh candidate"), acts=_greedy),
    Knob("solver.plans"),
    Knob("solver.samples", (1, 16, 2), ("style direct or more than one round",)),
    Knob("solver.samples_max", (1, 16, 2), ("style direct", "more than one round"),
         acts=lambda site: max(site.solver.samples, site.solver.samples_max)),
    Knob("solver.patience", (1, 20, 2), ("style direct", "more than one round")),
    Knob("solver.max_rounds", (1, 10, 1)),
    Knob("solver.max_turns", (5, 100, 5)),
    Knob("solver.repairs", (0, 4, 1), ("style loop or more than one round",)),
    Knob("solver.selector", None, ("several candidates",)),
    Knob("solver.feedback", None, ("repairs, or new starts after more than one round",)),
    Knob("solver.hint"),
    Knob("solver.decompose"),
    Knob("solver.testgen.tests_per_category_min", (2, 6, 1), ("test style lines or more than one round of tests",)),
    Knob("solver.testgen.tests_per_category_max", (2, 12, 1)),
    Knob("solver.testgen.rounds", (1, 4, 1), ("a tester's budget",)),
    Knob("solver.testgen.temperature", (0, 1.5, 0.1), ("a tester's budget",)),
    Knob("solver.testgen.gate"),
    Knob("solver.testgen.second_reading", None, ("a tester's budget", "test style files", "gate basic")),
    _axis("solver.command_seconds", "style loop"),
    _axis("solver.skill_tokens", "use_skills"),
    _axis("solver.max_answer_tokens"),
    _axis("solver.refinement"),
    _axis("solver.testgen.total_min", "test style lines or more than one round of tests"),
    _axis("solver.testgen.total_max"),
    _axis("solver.testgen.style"),
    _axis("solver.testgen.answer_tokens", "a tester's budget", "test style files"),
    _axis("solver.testgen.budget_tokens"),
    _axis("solver.testgen.seconds"),
    _axis("budget.tokens"),
    _axis("budget.lineage_tokens", "style loop"),
    _axis("budget.timeout_multiplier"),
    _axis("budget.default_timeout_sec"),
)  # fmt: skip
KNOBS = {knob.key: knob for knob in _TABLE}


def live(site: Site) -> tuple[Knob, ...]:
    """The knobs that a climb may turn and that have an effect here."""
    return tuple(knob for knob in _TABLE if knob.turner == "climb" and not knob.lacks(site))


def with_value(solver: SolverConfig, key: str, value: Any) -> SolverConfig:
    """A solver config with another value for ``solver.…``. Raises pydantic's ``ValidationError``."""
    return SolverConfig.model_validate(changed(solver.model_dump(), {key.removeprefix("solver."): value}))


@cache
def field_of(key: str) -> Any:
    """The field of a dotted key."""
    *above, name = key.split(".")
    return type(reduce(getattr, above, SweepConfig())).model_fields[name]
