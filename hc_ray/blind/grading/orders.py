"""Orders to the runner's scripts inside a grading sandbox, and their answers."""

import json
import secrets
from typing import Any

from hc_ray.domain.ports import Sandbox
from hc_ray.domain.runner_paths import machinery_command

ANSWER_LIMIT = 32 << 20


async def ask(
    sandbox: Sandbox, script: str, order: dict[str, Any], timeout: float
) -> tuple[dict[str, Any] | None, str]:
    """Send an order to ``hc_<script>``, run in the root folder. Returns its answer, or None and its other output."""
    nonce = secrets.token_hex(16)
    told = json.dumps({**order, "nonce": nonce}).encode()
    result = await sandbox.exec(
        machinery_command(script), timeout=timeout, cwd="/", stdin=told, output_limit=ANSWER_LIMIT
    )
    if (found := answer(result.stdout, nonce)) is not None:
        return found, ""
    said = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
    return None, f"exit code {result.exit_code}" + (f", {said[-1][:200]}" if said else "")


def answer(out: bytes, nonce: str) -> dict[str, Any] | None:
    """A script's answer to the order with this nonce; None if there is none."""
    for line in reversed(out.splitlines()):
        if line.startswith(nonce.encode() + b" "):
            try:
                found = json.loads(line[len(nonce) + 1 :])
            except (ValueError, RecursionError):
                return None
            return found if isinstance(found, dict) else None
    return None
