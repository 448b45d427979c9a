"""The shipped profiles (``configs/profiles``), the choice of a model's profile, and its effect on a config."""

from typing import Any

import yaml
from pydantic import ValidationError

from hc_ray.domain.config import SolverConfig, SweepConfig
from hc_ray.domain.errors import ConfigError
from hc_ray.domain.profile import LEAST_OF_ANSWER, Profile, lineage_tokens
from hc_ray.domain.value import changed, flattened
from hc_ray.machine.paths import configs_dir

LEAST_CONTEXT, WHOLE_CONTEXT = 4096, 16_384
"""The least context in tokens for the profile ``capable``, and for its full answer lengths."""
_ANSWER_SHARE = 4
_TESTGEN = "solver.testgen."
_SUITE_SHARE = 5
"""A suite's default budget is this fraction (1/n) of a trial's budget, if only the latter was set."""


def shipped(name: str) -> Profile:
    """The shipped profile of this name."""
    return Profile.model_validate(yaml.safe_load((configs_dir() / "profiles" / f"{name}.yaml").read_text("utf-8")))


def for_context(tokens: int, *, assumed: bool = False, chat: bool = True) -> tuple[Profile, str]:
    """The profile for a model of which only the context (known or ``assumed``) and ``chat`` support are known, and the
    reason for it."""
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
    """A model's own profile, merged with the shipped one that it derives from, as far as the context allows."""
    base = for_context(tokens)[0] if own.name != "tiny" else shipped("tiny")
    if base.name != own.name:
        return base
    return own.model_copy(update={"context_tokens": tokens, "settings": {**base.settings, **own.settings}})


def own_settings(profile: Profile) -> dict[str, Any]:
    """The settings of a profile that differ from the shipped one that it derives from; only these are stored."""
    base = for_context(profile.context_tokens)[0].settings if profile.name != "tiny" else {}
    return {key: value for key, value in profile.settings.items() if key not in base or base[key] != value}


def settled(config: SweepConfig, profile: Profile, tester: Profile | None = None) -> SweepConfig:
    """The config with unset keys filled from the solver's profile, and those of self-tests from the tester's.
    Idempotent. Raises ``ConfigError`` if the set and the derived values do not fit together."""
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
    """Raise ``ConfigError`` if the budget pays for no lineage, so that every trial would submit the untouched
    workspace."""
    solver, lineage = config.solver, lineage_tokens(config.budget)
    answer = profile.longest_answer(solver.max_answer_tokens)
    if solver.agent_style == "loop" and lineage < answer // LEAST_OF_ANSWER:
        raise ConfigError(
            f"with the profile `{profile.name}` one agent would get {lineage:,} tokens (budget.lineage_tokens, else a "
            f"quarter of budget.tokens), too few for an answer of up to {answer:,} (solver.max_answer_tokens): leave "
            f"budget.tokens to the profile, or set it to {4 * answer:,} or more"
        )
