"""The sections of ``task.toml`` as pydantic models: Harbor's task format, in its old and current spelling."""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hc_ray.domain.value import Value

NetworkMode = Literal["public", "no-network", "allowlist"]
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMG])B?\s*$", re.IGNORECASE)
_MEBIBYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


class Fault(Value):
    """A fault of a task: where it is, what it is, and its remedy."""

    field: str
    """A key of task.toml (``environment.memory``), or a path inside the task folder (``tests/test.sh``)."""
    says: str
    remedy: str


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @field_validator("*", mode="before")
    @classmethod
    def _no_booleans_for_numbers(cls, value: Any, info: Any) -> Any:
        # TOML has booleans; pydantic would read ``cpus = true`` as 1.
        if isinstance(value, bool) and info.field_name in _NUMBERS:
            raise ValueError("must be a number, not a boolean")
        return value


_NUMBERS = {"timeout_sec", "build_timeout_sec", "cpus", "memory_mb", "storage_mb", "gpus"}


class _Networked(Section):
    network_mode: NetworkMode | None = None
    """None: the task does not say (Harbor then gives the public network; hc-ray gives none)."""
    allowed_hosts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _hosts_need_a_list_mode(self) -> "_Networked":
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts needs network_mode = "allowlist"')
        return self


class TaskSection(Section):
    """``[task]``: name and authors. Not part of any digest."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: tuple[dict[str, Any], ...] = ()
    keywords: tuple[str, ...] = ()

    @field_validator("name")
    @classmethod
    def _org_and_name(cls, value: str | None) -> str | None:
        if value is not None and (not _NAME.match(value) or ".." in value):
            raise ValueError("must have the form org/name, with letters, digits, '-', '_' and '.'")
        return value


class EnvironmentSection(_Networked):
    """``[environment]``: sizes in MiB, times in seconds; None if the task does not say."""

    docker_image: str | None = None
    build_timeout_sec: float = Field(600.0, gt=0)
    os: Literal["linux", "windows"] = "linux"
    cpus: float | None = Field(None, gt=0, allow_inf_nan=False)
    memory_mb: int | None = Field(None, gt=0)
    storage_mb: int | None = Field(None, gt=0)
    gpus: int | None = Field(None, ge=0)
    gpu_types: tuple[str, ...] | None = None
    tpu: dict[str, Any] | None = None
    env: dict[str, str] = {}
    """Templates: ``${VAR}`` and ``${VAR:-default}`` are resolved from the host when a task is sealed."""
    workdir: str | None = None
    healthcheck: dict[str, Any] | None = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    skills_dir: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _old_spelling(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        new = dict(data)
        for old, now in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in new:
                size = megabytes(old, new.pop(old))
                if new.setdefault(now, size) != size:
                    raise ValueError(f"{old} and {now} contradict each other: keep one of them")
        if "allow_internet" in new:
            allowed = new.pop("allow_internet")
            if not isinstance(allowed, bool):
                raise ValueError("allow_internet must be true or false")
            mode = "public" if allowed else "no-network"
            # An allowlist is a kind of internet access, so it contradicts only ``false``.
            if new.setdefault("network_mode", mode) != mode and not (allowed and new["network_mode"] == "allowlist"):
                raise ValueError("allow_internet and network_mode contradict each other: keep network_mode")
        if isinstance(new.get("os"), str):
            new["os"] = new["os"].lower()
        return new

    @field_validator("workdir")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError("must be an absolute path")
        return value


class AgentSection(_Networked):
    """``[agent]``."""

    timeout_sec: float | None = Field(None, gt=0)
    """None: unlimited in Harbor; hc-ray then uses ``budget.default_timeout_sec``."""
    user: str | int | None = None


class VerifierSection(_Networked):
    """``[verifier]``: sealed, never shown to a solver."""

    timeout_sec: float = Field(600.0, gt=0)
    env: dict[str, str] = {}
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: dict[str, Any] | None = None
    collect: tuple[dict[str, Any], ...] = ()

    @model_validator(mode="after")
    def _one_environment(self) -> "VerifierSection":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError('environment_mode = "shared" and [verifier.environment] contradict each other')
        return self


class SolutionSection(Section):
    """``[solution]``: sealed."""

    env: dict[str, str] = {}


class Artifact(Section):
    """One entry of ``artifacts``: a path to transfer to a verifier with its own image."""

    source: str = Field(min_length=1)
    """A path in the task's container."""
    destination: str | None = None
    """Its path among Harbor's results; for the verifier it is at ``source``."""
    exclude: tuple[str, ...] = ()
    service: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _a_path_alone(cls, data: Any) -> Any:
        return {"source": data} if isinstance(data, str) else data


class ParsedTaskToml(Value):
    """A parsed task.toml. Faulty sections have their defaults; use the task only if ``faults`` is empty."""

    task: TaskSection = TaskSection()
    metadata: dict[str, Any] = {}
    environment: EnvironmentSection = EnvironmentSection()
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    solution: SolutionSection = SolutionSection()
    artifacts: tuple[Artifact, ...] = ()
    multi_step: bool = False
    """``[[steps]]``: recognised and refused."""
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Fault, ...] = ()
    """Unknown tables and keys, which are ignored."""

    @property
    def tags(self) -> tuple[str, ...]:
        found = self.metadata.get("tags", ())
        return tuple(str(tag) for tag in found) if isinstance(found, list | tuple) else ()


def megabytes(field: str, size: Any) -> int:
    """Convert Harbor's old spelling (``"2G"``, ``"512M"``) to MiB. Raises ``ValueError`` for any other form."""
    match = _SIZE.match(size) if isinstance(size, str) else None
    if not match:
        raise ValueError(f'{field} = {size!r} is not a size; write "2G" or "512M", or {field}_mb = 2048')
    return int(float(match[1]) * _MEBIBYTES[match[2].upper()])
