"""Who writes self-tests, by the names that a command line gives: one tester, or several that share a suite."""

from hc_ray.domain.config import TESTERS, EngineConfig, RoleName, SweepConfig
from hc_ray.domain.errors import ConfigError


def tester_engine(name: str, local: EngineConfig) -> EngineConfig:
    """The engine of a tester: ``local`` (that of the settings), ``module:function`` (scripted), ``MODEL@URL`` (any
    compatible server), else a model of the catalogue or a path of weights."""
    if name == "local":
        return local
    model, at, url = name.partition("@")
    if at and url.startswith(("http://", "https://")):
        return EngineConfig(kind="openai", base_url=url, model=model)
    if ":" in name and not name.endswith(".gguf"):
        return EngineConfig(kind="scripted", script=name)
    return EngineConfig(kind="embedded", model=name)


def with_testers(config: SweepConfig, names: str) -> SweepConfig:
    """The settings with the testers that ``names`` lists, parted by commas. Raises ``ConfigError`` for none, and for
    more than ``len(TESTERS)``."""
    local = config.roles.get("tester", config.engine)
    wanted = dict.fromkeys(name.strip() for name in names.split(",") if name.strip())
    if not 1 <= len(wanted) <= len(TESTERS):
        raise ConfigError(f"--tester {names}: name 1 to {len(TESTERS)} testers")
    others: dict[RoleName, EngineConfig] = {role: one for role, one in config.roles.items() if role not in TESTERS}
    testers = dict(zip(TESTERS, (tester_engine(name, local) for name in wanted), strict=False))
    return config.model_copy(update={"roles": {**others, **testers}})
