"""The journal of a sweep, ``events/<n>.jsonl``, read again."""

import json
from collections.abc import Iterator
from typing import Any

from hc_ray.domain.ports import Store


def events_of(store: Store, *signs: bytes, where: str = "") -> Iterator[dict[str, Any]]:
    """The journal's events in whose lines one of these stands: a large sweep has millions of others. Half a line is
    passed over. ``where``: the folder of the sweep."""
    for path in store.list(f"{where}events"):
        for line in store.read(path).splitlines():
            if any(sign in line for sign in signs):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue
