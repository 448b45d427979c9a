"""A role's model, and its exchanges."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hc_ray.domain.config import TESTERS, RoleName
from hc_ray.domain.ports import Model
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.value import Value


@dataclass(frozen=True)
class RoleModel:
    """A role's model and profile."""

    model: Model
    profile: Profile
    digest: str
    """Digest of model and profile, as in the trial's key."""
    label: str = "model"
    """The model's name for display."""
    others: tuple["RoleModel", ...] = ()
    """For a tester: further models that write tests for the same suite."""


class Exchange(Value):
    """One prompt to a model and its answer."""

    owner: str
    """Its owner: a candidate's id, or ``testgen``."""
    prompt: Prompt
    completion: Completion


def together(roles: Mapping[RoleName, RoleModel]) -> dict[RoleName, RoleModel]:
    """The roles for a trial, with further testers merged into the first."""
    kept = {role: one for role, one in roles.items() if role not in TESTERS[1:]}
    fellows = tuple(roles[role] for role in TESTERS[1:] if role in roles)
    return {**kept, "tester": replace(kept["tester"], others=fellows)} if fellows and "tester" in kept else kept
