"""A model whose answers are a function of the prompt: deterministic, for tests and for checking the harness."""

import pkgutil
import re
from collections.abc import Callable

from hc_ray.domain.errors import ConfigError
from hc_ray.domain.prompt import Completion, Prompt

_PIECE = re.compile(r"\w+|[^\w\s]")


def count_pieces(text: str) -> int:
    """Number of words and punctuation marks in ``text``: a simple substitute for an engine's token count."""
    return len(_PIECE.findall(text))


class ScriptedModel:
    """Implements ``ports.Model``. Token counts are ``count_pieces``; answers end with ``finish_reason='scripted'``."""

    def __init__(self, answer: Callable[[Prompt], str]) -> None:
        self._answer = answer

    async def complete(self, prompt: Prompt) -> Completion:
        """The script's answer, verbatim: stop sequences and ``max_tokens`` do not apply."""
        text = self._answer(prompt)
        asked = prompt.text if prompt.text is not None else "\n".join(message.content for message in prompt.messages)
        return Completion(
            text=text,
            prompt_tokens=count_pieces(asked),
            completion_tokens=count_pieces(text),
            finish_reason="scripted",
        )

    async def count_tokens(self, text: str) -> int:
        return count_pieces(text)


def load_script(name: str) -> Callable[[Prompt], str]:
    """Import the function ``module:function``. Raises ``ConfigError`` if that fails."""
    try:
        function = pkgutil.resolve_name(name)
    except Exception as error:  # importing runs arbitrary code
        raise ConfigError(f"script {name!r}: {error or type(error).__name__}") from None
    if ":" not in name or not callable(function):
        raise ConfigError(f"script {name!r}: must name a function in the form module:function")
    return function  # type: ignore[no-any-return]
