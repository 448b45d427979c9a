"""hc-ray as an agent of Harbor: ``harbor run -a hc_ray.harbor:Agent``. Imported by Harbor, in Harbor's own Python;
docs/harbor.md has the commands and says what ``hc`` means there."""

import importlib.metadata
from pathlib import Path
from typing import Any, ClassVar

from hc_ray import __version__
from hc_ray.domain.errors import UserError

NEEDED = (0, 25)
"""The Harbor that this was tried with: between minor versions its interfaces change."""
_NEEDS = "hc-ray needs Harbor {}.{} or newer".format(*NEEDED)
_REMEDY = "pip install -U 'harbor>={}.{}'".format(*NEEDED)


def _too_old() -> str | None:
    """Why this Harbor will not do; None where it will."""
    try:
        found = importlib.metadata.version("harbor")
    except importlib.metadata.PackageNotFoundError:
        return f"{_NEEDS}, and there is none: {_REMEDY}"
    parts = [int(part) for part in found.split(".")[:2] if part.isdigit()]
    return f"{_NEEDS}; this is {found}: {_REMEDY}" if tuple(parts) < NEEDED else None


if (_fault := _too_old()) is not None:
    raise ImportError(_fault)

from harbor.agents.agent_auth_resolution import ModelConnectionSpec  # noqa: E402
from harbor.agents.base import BaseAgent  # noqa: E402
from harbor.agents.capabilities import AgentCapabilities  # noqa: E402
from harbor.agents.options import AgentOptions  # noqa: E402

from hc_ray_actors.integrations.harbor_trial import HarborTrial, Style, keep_key, settings  # noqa: E402


class Options(AgentOptions):  # type: ignore[misc]
    """What ``--ak KEY=VALUE`` sets."""

    agent: Style = "hc"
    """``raw``: one lineage without a suite."""
    config: str | None = None
    """A YAML file as ``hc-ray sweep`` takes."""
    set: dict[str, Any] = {}
    """Any field of the config by its dotted key, as JSON: ``set={"solver.repairs": 1}``."""


class Agent(BaseAgent):  # type: ignore[misc]
    """Writes self-tests from the instruction, works in Harbor's environment, and repairs what fails them."""

    capabilities: ClassVar[AgentCapabilities] = AgentCapabilities(base_url=True, atif=True)
    options_model = Options
    MODEL_CONNECTION = ModelConnectionSpec(default_provider="openai")

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        connection = self.model_connection
        keep_key(connection.api_key_source_name, connection.api_key)
        self._trial = HarborTrial(_settings(connection, self.options), self.options.agent)

    @classmethod
    def check_model_credentials(cls, connection: Any, *, kwargs: dict[str, Any], **other: Any) -> None:
        """Before the first trial: the settings make sense, and name a server."""
        known = {key: value for key, value in kwargs.items() if key in Options.model_fields}
        _settings(connection, Options.model_validate(known))

    @staticmethod
    def name() -> str:
        return "hc-ray"

    def version(self) -> str:
        return __version__

    async def setup(self, environment: Any) -> None:
        await self._trial.setup(environment)

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        await self._trial.run(instruction, environment, context, Path(self.logs_dir))


def _settings(connection: Any, options: Options) -> Any:
    """The settings. Raises ``ValueError``, which Harbor shows as one line."""
    from hc_ray.cli.config_loader import SET, Flag, load_config

    engine = {
        "base_url": connection.user_supplied_base_url,
        "model": connection.model_id,
        "api_key_env": connection.api_key_source_name,
    }
    named = {f"engine.{key}": value for key, value in engine.items() if value}
    flags = [Flag(SET, key, value) for key, value in (named | options.set).items()]
    try:
        return settings(load_config(Path(options.config).expanduser() if options.config else None, flags))
    except UserError as fault:
        raise ValueError(" ".join(str(fault).split())) from None
