"""Variables of the host in what a task's author wrote."""

import os
import re
from collections.abc import Mapping

from hc_ray.domain.errors import DatasetError
from hc_ray.tasks.task_sections import Fault

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def resolve_templates(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """``${VAR}`` and ``${VAR:-default}`` from the host's environment. Raises ``DatasetError`` for a variable that the
    host lacks and that has no default."""

    def value(match: re.Match[str]) -> str:
        found = host.get(match[1], match[2])
        if found is None:
            raise DatasetError(f"needs the environment variable {match[1]}, which is not set here")
        return found

    return {key: VARIABLE.sub(value, text) for key, text in env.items()}


def resolved_here(field: str, env: Mapping[str, str], faults: list[Fault]) -> dict[str, str]:
    """``resolve_templates`` on this machine; a missing variable becomes a fault of ``field``."""
    try:
        return resolve_templates(env, os.environ)
    except DatasetError as error:
        faults.append(Fault(field=field, says=str(error), remedy="set it, or give it a default: ${VAR:-x}"))
        return {}
