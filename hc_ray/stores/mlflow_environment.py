"""Environment variables to set before MLflow is imported: no telemetry, and a home."""

from hc_ray.machine.paths import data_root, expanded

_QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
}
"""A server that is gone costs seconds, not minutes."""


def environment() -> dict[str, str]:
    """The variables for this process and the UI's. MLflow does not do without a home. Raises ``PlatformError`` where
    there is neither one nor ``HC_RAY_HOME``."""
    return _QUIET if expanded("~").is_absolute() else {**_QUIET, "HOME": str(data_root())}
