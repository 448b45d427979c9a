"""The shipped profiles (``configs/profiles``), which one a model gets, and what follows from it for a config."""

from typing import Any

import yaml
from pydantic import ValidationError

from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import LEAST_OF_ANSWER, Profile, lineage_tokens
from hc_ray.domain.value import changed, flattened
from hc_ray.machine.paths import configs_dir

LEAST_CONTEXT, WHOLE_CONTEXT = 4096, 16_384
"""Tokens of context from which a model gets the profile ``capable``, and from which it gets it whole."""
_ANSWER_SHARE = 4
_TESTGEN = "solver.testgen."
_SUITE_SHARE = 5
"""A suite may cost one in so many tokens of a trial, where the trial's budget was set and the suite's was not."""


def shipped(name: str) -> Profile:
    """A shipped profile."""
    return Profile.model_validate(yaml.safe_load((configs_dir() / "profiles" / f"{name}.yaml").read_text("utf-8")))


def for_context(tokens: int, *, assumed: bool = False, chat: bool = True) -> tuple[Profile, str]:
    """The profile of a model of which only the context is known, or assumed, and whether its server has ``chat``; and
    why it is this one."""
    has = f"its context {'is assumed to have' if assumed else 'has'} {tokens:,} tokens"
    if not chat or tokens < LEAST_CONTEXT:
        why = f"{has}, fewer than the {LEAST_CONTEXT:,} that `capable` needs" if chat else "`capable` needs chat"
        return shipped("tiny").model_copy(update={"context_tokens": tokens}), why
    profile = shipped("capable").model_copy(update={"context_tokens": tokens})
    if tokens >= WHOLE_CONTEXT:
        return profile, has
    answers = ("solver.max_answer_tokens", "solver.testgen.answer_tokens")
    short = {key: min(profile.settings[key], tokens // _ANSWER_SHARE) for key in answers}
    short["solver.observation_chars"] = SolverConfig().observation_chars
    why = f"{has}; below {WHOLE_CONTEXT:,} answers and outputs are shortened"
    return profile.model_copy(update={"settings": {**profile.settings, **short}}), why


def of_model(own: Profile, tokens: int) -> Profile:
    """A model's own profile, on the shipped one that it derives from as far as the context has room for that."""
    base = for_context(tokens)[0] if own.name != "tiny" else shipped("tiny")
    if base.name != own.name:
        return base
    return own.model_copy(update={"context_tokens": tokens, "settings": {**base.settings, **own.settings}})


def own_settings(profile: Profile) -> dict[str, Any]:
    """What a profile sets otherwise than the shipped one that it derives from; all that is kept of a measured one."""
    base = for_context(profile.context_tokens)[0].settings if profile.name != "tiny" else {}
    return {key: value for key, value in profile.settings.items() if key not in base or base[key] != value}


def settled(config: SweepConfig, profile: Profile, tester: Profile | None = None) -> SweepConfig:
    """The config with the solver's profile's values for every key that nobody set, and for those of self-tests the
    tester's. A config that is settled again stays as it is. Raises ``ConfigError`` where what was set and what follows
    from it do not fit together."""
    given = flattened(config.model_dump(exclude_unset=True))
    settings = {key: value for key, value in profile.settings.items() if not key.startswith(_TESTGEN)}
    settings |= {key: value for key, value in (tester or profile).settings.items() if key.startswith(_TESTGEN)}
    follows = {key: value for key, value in settings.items() if key not in given}
    data = changed(config.model_dump(), follows)
    budget = data["budget"]["tokens"]
    if (suite := f"{_TESTGEN}budget_tokens") in follows and (tester or profile).settings.get("budget.tokens") != budget:
        data = changed(data, {suite: min(follows[suite], budget // _SUITE_SHARE)})
    try:
        config = SweepConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"with the profile `{profile.name}`: {error.errors()[0]['msg']}") from None
    _pays_for_an_answer(config, profile)
    return config


def _pays_for_an_answer(config: SweepConfig, profile: Profile) -> None:
    """Raises ``ConfigError`` where no lineage would begin, and every trial would hand in what it was given."""
    solver, lineage = config.solver, lineage_tokens(config.budget)
    answer = profile.longest_answer(solver.max_answer_tokens)
    if solver.agent_style == "loop" and lineage < answer // LEAST_OF_ANSWER:
        raise ConfigError(
            f"with the profile `{profile.name}` one agent would get {lineage:,} tokens (budget.lineage_tokens, else a "
            f"quarter of budget.tokens), too few for an answer of up to {answer:,} (solver.max_answer_tokens): leave "
            f"budget.tokens to the profile, or set it to {4 * answer:,} or more"
        )
