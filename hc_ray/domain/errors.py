"""All exceptions of hc-ray. The type says where the failure lies; a failed candidate is a result, not an exception."""


class HcRayError(Exception):
    """Base of all exceptions. Subclasses take a single message, so that they survive pickling between processes."""

    where: str = ""
    """Name of the post that failed (``driver.crew.posts``), if known."""


class UserError(HcRayError):
    """The user's input is invalid: exit code 2, no traceback. The message says in one or two lines what is wrong,
    where, and what to do."""


class ConfigError(UserError):
    """A config file, flag, agent or setting is invalid."""


class DatasetError(UserError):
    """A dataset or one of its tasks cannot be used."""


class ModelError(UserError):
    """A model is unknown, its weights are missing or its file is not a model."""


class OutputError(UserError):
    """The output directory belongs to another config or to another running sweep."""


class PlatformError(UserError):
    """This machine lacks a requirement; the message names the remedy."""


class InfrastructureError(HcRayError):
    """A failure outside the sandbox; the trial that it hits is unscored."""


class EngineError(InfrastructureError):
    """The inference server failed."""


class SandboxError(InfrastructureError):
    """The sandbox itself failed (not the code that ran in it)."""


class VerifierError(InfrastructureError):
    """The verifier itself failed."""


class ControlError(VerifierError):
    """The task's own reference solution does not pass, so no verdict on this task is meaningful."""


class ActorError(InfrastructureError):
    """A process that the sweep started (an engine, sandboxes, a verifier, trials) died or does not respond."""


class StoreError(InfrastructureError):
    """The sweep directory could not be read or written."""


class LeakError(HcRayError):
    """Sealed content was found where a model or a reader of its prompts could see it: the run fails."""
