"""Every exception of hc-ray. The type says where the failure lies; a failed candidate is a result and raises nothing.

The tree:

    HcRayError
    ├── UserError             invalid input from the user: exit code 2, one or two lines, no traceback
    │   ├── ConfigError       an invalid YAML file, flag, agent or setting
    │   ├── DatasetError      a folder that is not a dataset, or a task that cannot be used
    │   ├── ModelError        an unknown model, a file that is not GGUF, or missing weights
    │   ├── OutputError       an output directory that belongs to another config or another running sweep
    │   └── PlatformError     a missing requirement on this machine (Docker, user namespaces, …)
    ├── InfrastructureError   a failure outside the sandbox: the trial is *unscored*
    │   ├── EngineError       an inference server that died, refused a request or timed out
    │   ├── SandboxError      a failure of the daemon, an image, the disk or a sandbox process
    │   ├── VerifierError     a failure of the verifier itself
    │   │   └── ControlError  a task whose reference solution does not pass
    │   ├── ActorError        a process of the sweep that died or does not respond
    │   └── StoreError        the sweep directory could not be read or written
    └── LeakError             sealed content was found where a model could read it: the run fails
"""


class HcRayError(Exception):
    """Root of the tree. Subclasses take one message, so that they survive pickling between processes."""

    where: str = ""
    """The post of the sweep that failed (``driver.crew.posts``), where whoever raised it knows."""


class UserError(HcRayError):
    """The user's input cannot be used; the message says what is wrong, where, and what to do."""


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
    """A failure seen outside the sandbox; the trial it hits is unscored."""


class EngineError(InfrastructureError):
    """The inference server failed."""


class SandboxError(InfrastructureError):
    """The sandbox's machinery failed (not the code that ran in it)."""


class VerifierError(InfrastructureError):
    """The verifier's machinery failed."""


class ControlError(VerifierError):
    """The task's own reference solution does not pass, so no verdict on this task is meaningful."""


class ActorError(InfrastructureError):
    """A process that the sweep started (an engine, sandboxes, a verifier, trials) died or does not respond."""


class StoreError(InfrastructureError):
    """The sweep directory could not be read or written."""


class LeakError(HcRayError):
    """Sealed content was found where a model or a reader of its prompts could see it."""
