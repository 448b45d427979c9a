"""Profiles, which say how to prompt a model: measured once per model (``hc-ray engine bench``) or shipped with the
catalogue, and part of every trial's key."""

from typing import Any

from hc_ray.domain.config import BudgetConfig, Form, Sampling
from hc_ray.domain.ports import Capabilities
from hc_ray.domain.value import Value, digest_of

LEAST_OF_ANSWER = 4
"""A lineage starts only if its budget covers this fraction (1/n) of its longest answer."""


def lineage_tokens(budget: BudgetConfig) -> int:
    """Token budget of one lineage."""
    return budget.lineage_tokens or budget.tokens // 4


class Profile(Value):
    """How one model is best prompted, and its limits."""

    name: str = "tiny"
    """The shipped profile that this one derives from."""
    context_tokens: int = 2048
    """Context length that prompts may use, answers included."""
    settings: dict[str, Any] = {}
    """Defaults of config keys (dotted) for this model; a config file or a flag overrides them."""

    form: Form = "chat"
    """Format of solver prompts: ``chat``, or ``completion`` (a code prefix that the model continues)."""
    test_form: Form = "chat"
    """Format of tester prompts."""
    stop: dict[Form, tuple[str, ...]] = {}
    """Extra stop sequences for each prompt format."""
    temperature_best_single: float = 0.0
    """Temperature at which a single sample passes most often; ``raw`` uses it."""
    sampling: Sampling = Sampling()
    """Sampling parameters besides the temperature."""
    bias_to_agreement: bool = True
    """Whether agreement between candidates outweighs single expected values, because the model predicts them poorly."""
    measured: str = "not measured"
    """When, where and how the profile was measured."""

    @property
    def digest(self) -> str:
        return digest_of(self.model_dump(mode="json", exclude={"measured"}))

    def longest_answer(self, asked: int) -> int:
        """Maximum tokens of a lineage's answer: ``asked``, but at most a third of the context."""
        return min(asked, self.context_tokens // 3)


def usable(profile: Profile, capabilities: Capabilities) -> Profile:
    """The profile restricted to what a server supports: a single format if it has only chat or only completions, and
    fenced actions if it has no tools."""
    if profile.settings.get("solver.actions") == "calls" and not capabilities.tools:
        profile = profile.model_copy(update={"settings": {**profile.settings, "solver.actions": "fenced"}})
    if capabilities.completion and capabilities.chat:
        return profile
    only = "chat" if capabilities.chat else "completion"
    return profile.model_copy(update={"form": only, "test_form": only})
