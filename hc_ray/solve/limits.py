"""How long an answer may be. Budgets reserve the longest answer that is allowed, so a limit far above what a kind of
file needs makes a small budget pay for few answers."""

from collections.abc import Mapping

from hc_ray.solve.deliverable import Deliverable, Kind

SHARES: Mapping[Kind, float] = {
    "pattern": 0.25, "function": 0.5, "shell": 0.5, "output": 0.75, "script": 0.75, "program": 0.75,
}  # fmt: skip
"""The share of ``max_answer_tokens`` that one file of a kind gets."""
FENCE_TOKENS = 30
"""What a chat answer says around its file."""
CHARACTERS_PER_TOKEN = 3.0
LEAST = 16


_TAIL, _TIMES = 24, 3


def loops(text: str) -> bool:
    """Whether an answer ended in saying the same again and again: more tokens would only bring more of it."""
    tail = text.rstrip()[-_TAIL:]
    return len(tail) == _TAIL and text.count(tail) >= _TIMES


def answer_limit(
    deliverable: Deliverable, most: int, shown: Mapping[str, str], *, framed: bool = False, cut: bool = False
) -> int:
    """Tokens that an answer may have. ``most``: ``max_answer_tokens``; ``shown``: files of the workspace that go into
    the prompt: one that is to be changed has to fit into the answer whole. ``framed``: a function is written, whatever
    the file. ``cut``: an answer of this form has been cut off in the middle of something new; then, and where several
    files are asked for, nothing is kept back."""
    if cut or len(deliverable.files) > 1:
        return most
    held = shown.get(deliverable.main.path, "") if deliverable.main.exists else ""
    whole = int(1.5 * len(held) / CHARACTERS_PER_TOKEN)
    share = SHARES[deliverable.kind]
    if framed:
        share, whole = min(share, SHARES["function"]), 0
    return max(LEAST, min(most, max(int(share * most), whole) + FENCE_TOKENS))
