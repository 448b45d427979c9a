"""What the translator refuses."""


class Untranslatable(Exception):
    """The function holds something that is not carried over into C; nothing is guessed."""

    def __init__(self, reason: str, line: int = 0) -> None:
        """``reason``: the construct, in short words; ``line`` of the Python text, from 1, or 0."""
        super().__init__(f"{reason} (line {line})" if line else reason)
        self.reason = str(self)
