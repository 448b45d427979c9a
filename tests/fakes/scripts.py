"""Scripted answers: functions of the prompt and its seed alone."""

import hashlib
from typing import Any

from hc_ray.domain.prompt import Prompt
from tests.fakes.engine_server import prompt_of


def echo(prompt: Prompt) -> str:
    """A digest of what was asked and its seed: another prompt or seed gives another answer."""
    asked = prompt.text if prompt.text is not None else "\n".join(message.content for message in prompt.messages)
    return _digest(asked, prompt.seed)


def echo_request(body: dict[str, Any]) -> str:
    """The same for a request's JSON."""
    return _digest(prompt_of(body), body.get("seed", 0))


def _digest(asked: str, seed: int) -> str:
    return "answer " + hashlib.sha256(f"{seed}\n{asked}".encode()).hexdigest()[:16]
