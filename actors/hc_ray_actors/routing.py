"""Which replica of an engine a task's prompts go to."""

import hashlib
import math
from collections.abc import Sequence

from hc_ray.domain.errors import EngineError


def replica(task_digest: str, loads: Sequence[int | None], *, factor: float = 1.25) -> int:
    """Consistent hashing with bounded loads (Mirrokni et al. 2016): all candidates of a task share one replica's prefix
    cache, unless that replica has more than ``factor`` × the mean load in hand, in tokens. None in ``loads`` is a
    replica that takes nothing. Raises ``EngineError`` where no other is left."""
    able = {index: load for index, load in enumerate(loads) if load is not None}
    if not able:
        raise EngineError("no replica of the engine takes requests any more")
    bound = math.ceil(factor * (sum(able.values()) + 1) / len(able))
    ranked = sorted(able, key=lambda index: hashlib.sha256(f"{task_digest}:{index}".encode()).digest(), reverse=True)
    return next(index for index in ranked if able[index] < bound)
