"""A role's model, and what was asked of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hc_ray.domain.config import TESTERS, RoleName
from hc_ray.domain.ports import Model
from hc_ray.domain.profile import Profile
from hc_ray.domain.prompt import Completion, Prompt
from hc_ray.domain.value import Value


@dataclass(frozen=True)
class RoleModel:
    """A role's model and how it is best asked."""

    model: Model
    profile: Profile
    digest: str
    """Digest of model and profile, as in the trial's key."""
    label: str = "model"
    """The model's name for a reader."""
    others: tuple["RoleModel", ...] = ()
    """Of a tester: further models that write tests for the same suite."""


class Exchange(Value):
    """One question to a model and its answer."""

    owner: str
    """What it belongs to: a candidate's id, or ``testgen``."""
    prompt: Prompt
    completion: Completion


def together(roles: Mapping[RoleName, RoleModel]) -> dict[RoleName, RoleModel]:
    """The roles as a trial knows them: further testers are fellows of the first."""
    kept = {role: one for role, one in roles.items() if role not in TESTERS[1:]}
    fellows = tuple(roles[role] for role in TESTERS[1:] if role in roles)
    return {**kept, "tester": replace(kept["tester"], others=fellows)} if fellows and "tester" in kept else kept
