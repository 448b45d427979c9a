"""Which engine replica a task's prompts go to."""

import hashlib
import math
from collections.abc import Sequence


def replica(task_digest: str, loads: Sequence[int], *, factor: float = 1.25) -> int:
    """Consistent hashing with bounded loads (Mirrokni et al. 2016): all candidates of a task share one replica's prefix
    cache, unless that replica carries more than ``factor`` × the mean load."""
    bound = math.ceil(factor * (sum(loads) + 1) / len(loads))
    ranked = sorted(
        range(len(loads)), key=lambda index: hashlib.sha256(f"{task_digest}:{index}".encode()).digest(), reverse=True
    )
    return next((index for index in ranked if loads[index] < bound), ranked[0])
