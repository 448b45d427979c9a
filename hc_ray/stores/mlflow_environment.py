"""Environment variables to set before MLflow is imported: no telemetry, and a home."""

import os

from hc_ray.machine.paths import data_root, expanded

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
"""Where this environment names no others: a server that is gone costs seconds, and one that hangs two minutes, not the
ten that a sweep waits at its end."""


def environment() -> dict[str, str]:
    """The variables for this process and the UI's. MLflow does not do without a home. Raises ``PlatformError`` where
    there is neither one nor ``HC_RAY_HOME``."""
    told = _QUIET | {name: os.environ.get(name, usual) for name, usual in _PATIENCE.items()}
    return told if expanded("~").is_absolute() else {**told, "HOME": str(data_root())}
