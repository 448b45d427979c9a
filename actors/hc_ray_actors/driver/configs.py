"""The configs of a sweep as they will run: completed by their models' profiles, named by their differences, and merged
for agents to which they are the same."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hc_ray.agent.prompt_formats import plan_text
from hc_ray.agent.skills import prompts_of
from hc_ray.climb.knobs import KNOBS, Site
from hc_ray.domain.config import OWN, AgentName, RoleName, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import Profile
from hc_ray.domain.trial import WITHOUT_MODEL, config_hash
from hc_ray.domain.value import Value, digest_of, flattened
from hc_ray.domain.variants import AXES, variants
from hc_ray.engines.profiles import settled
from hc_ray.machine import own_code
from hc_ray_actors.role_models import Looked, Planned, role_models

_OF_HC = frozenset({"testgen", "selector", "feedback", "repairs", "patience", "max_rounds", "tournament",
                    "decompose", "refinement"})  # fmt: skip
"""Fields of ``SolverConfig`` that only ``hc`` reads."""
_OF_SEVERAL = frozenset({"samples", "samples_max", "greedy", "temperatures"})
"""Fields that ``raw`` does not read either, since it samples one candidate."""


_IN_CHAT = {"solver": ("solver.agent_style", "loop"), "tester": ("solver.testgen.style", "files"),
            "decomposer": ("solver.decompose", "model")}  # fmt: skip
"""Role → the setting and value under which it needs chat."""


class PlannedConfig(Value):
    """One config of a sweep."""

    name: str
    """Empty if the sweep has only one config."""
    changes: dict[str, Any] = {}
    """Dotted key → value: its changes to the file's settings."""
    config: SweepConfig
    models: dict[RoleName, Planned] = {}
    seen: Looked = {}
    prompts: dict[RoleName, str] = {}
    """Role → digest of its prompt templates."""
    hash: str = ""
    stands: dict[AgentName, str] = {}
    """Agent → hash of the config whose trials also represent this one."""

    @property
    def settings(self) -> dict[str, Any]:
        """Dotted key → value of every setting in which configs of a sweep may differ."""
        return flattened(self.config.model_dump(mode="json", include=set(AXES)))

    def of_trials(self, agent: AgentName) -> dict[str, Any]:
        """The part of the config that goes into the keys of an agent's trials."""
        asks = agent not in WITHOUT_MODEL
        return {
            "solver": self.config.solver,
            "budget": self.config.budget,
            "models": {role: digest for role, (_, _, digest) in self.models.items()} if asks else {},
            "prompts": self.prompts if asks else {},
        }


def drafts(config: SweepConfig) -> tuple[PlannedConfig, ...]:
    """The configs of a sweep before their models are known. Raises ``ConfigError``, and ``pydantic.ValidationError``
    for settings that the command line would have refused."""
    alone = config.model_copy(update={"configs": (), "grid": {}})
    made = []
    for variant in variants(config):
        with _named(variant.name):
            own = own_code.settled(variant.validated(config) if variant.changes else alone)
            for plan in own.solver.plans:
                plan_text(plan)
        made.append(PlannedConfig(name=variant.name, changes=variant.changes, config=own))
    return tuple(made)


def settle(drafts: Sequence[PlannedConfig]) -> tuple[tuple[PlannedConfig, ...], tuple[str, ...]]:
    """The configs that will run, and notes about them for the plan. Raises ``ConfigError``."""
    looked: Looked = {}
    notes: dict[str, None] = {}
    known: dict[str, str] = {}
    kept: list[PlannedConfig] = []
    for draft in drafts:
        with _named(draft.name):
            one, told = _settled(draft, looked)
        notes |= dict.fromkeys(told)
        if twin := next((other for other in kept if other.hash == one.hash), None):
            raise ConfigError(f"configs {twin.name!r} and {one.name!r} are the same; remove one of them")
        agents = one.config.agents
        stands = {agent: known.setdefault(digest_of([agent, read_by(agent, one)]), one.hash) for agent in agents}
        if one.hash in stands.values():
            kept.append(one.model_copy(update={"stands": stands}))
        else:
            notes[f"config {one.name} is left out: for {', '.join(agents)} it equals another config"] = None
    for agent in kept[0].config.agents:
        runs = len({one.stands[agent] for one in kept})
        if runs < len(kept):
            notes[f"{agent} runs under {runs} of {len(kept)} configs: it does not use what the others change"] = None
    return tuple(kept), tuple(notes)


def _settled(draft: PlannedConfig, looked: Looked) -> tuple[PlannedConfig, tuple[str, ...]]:
    asked = role_models(draft.config, looked)
    models, own, notes = asked.models, draft.config, asked.notes
    if models:
        own = settled(own, models["solver"][1], models["tester"][1])
        _has_effect(draft.changes, own, models["solver"][1])
        _has_chat(own, models, looked)
        engine, ways = models["solver"][0], (own.solver.agent_style, own.solver.actions)
        if ways == ("loop", "calls") and not all(one.tools for one in looked.get(engine, ())):
            notes += (f"solver.actions: calls, but {engine.label} was not seen to answer with native tool calls",)
    digests = {role: digest for role, (_, _, digest) in models.items()}
    prompts = {role: prompts_of(own.solver, role) for role in models}
    found = {
        "config": own,
        "models": models,
        "seen": {engine: looked.get(engine, ()) for engine, _, _ in models.values()},
        "prompts": prompts,
        "hash": config_hash(own.solver, own.budget, digests, prompts),
    }
    return draft.model_copy(update=found), notes


def read_by(agent: AgentName, one: PlannedConfig) -> dict[str, Any]:
    """Everything in a config that an agent's trials can depend on: two configs that agree in it give equal trials."""
    if agent in WITHOUT_MODEL:
        return {}
    solver, direct = one.config.solver, one.config.solver.agent_style == "direct"
    roles = set(one.models) if agent == "hc" or OWN.fullmatch(agent) else {"solver"}
    return {
        "solver": solver.model_dump(mode="json", exclude=_unread(agent, direct)),
        "budget": one.config.budget.model_dump(mode="json", exclude={"tokens"} if agent == "raw" and direct else None),
        "models": {role: digest for role, (_, _, digest) in one.models.items() if role in roles},
        "prompts": {role: digest for role, digest in one.prompts.items() if role in roles},
    }


def _unread(agent: AgentName, direct: bool) -> set[str]:
    """Fields of ``SolverConfig`` that an agent ignores in its style."""
    unread: set[str] = set() if direct else {"samples_max"}
    if agent in ("raw", "best_of_n"):
        unread = set(_OF_HC) | ({"samples", "samples_max"} if direct else set())
    if agent == "raw":
        unread |= _OF_SEVERAL | ({"max_turns"} if direct else set())
    return unread


def _has_effect(changes: Collection[str], config: SweepConfig, profile: Profile) -> None:
    """Raise ``ConfigError`` for a setting that has no effect under the config's other settings."""
    site = Site(solver=config.solver, profile=profile, tools=True)
    # The knob table is about `hc`; that a climb may not turn the style does not mean that it has no effect.
    others = {"agent_style"}
    if "best_of_n" in config.agents:
        others |= _OF_SEVERAL - _unread("best_of_n", config.solver.agent_style == "direct")
    for key in sorted(changes):
        knob = KNOBS.get(key)
        if knob and (needs := knob.lacks(site)) and key.removeprefix("solver.") not in others:
            raise ConfigError(f"{key} has no effect with these settings; it needs: {', '.join(needs)}")


def _has_chat(config: SweepConfig, models: Mapping[RoleName, Planned], looked: Looked) -> None:
    """Raise ``ConfigError`` for a setting under which a role needs chat, if its server has none."""
    settings = flattened(config.model_dump(include={"solver"}))
    for role, (engine, _, _) in models.items():
        key, value = _IN_CHAT[role.partition("_")[0]]
        if settings[key] == value and not all(one.chat for one in looked.get(engine, ())):
            raise ConfigError(
                f"{key}: {value} needs chat, but {engine.label} supports only completions: omit {key}, or give the "
                "server its model's chat template"
            )


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Prefix a ``ConfigError`` with the name of its config."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"config {name}: {error}" if name else str(error)) from None
