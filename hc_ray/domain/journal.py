"""Reads the journal of a sweep, ``events/<n>.jsonl``."""

import json
from collections.abc import Iterator
from typing import Any

from hc_ray.domain.ports import Store


def events_of(store: Store, *signs: bytes, where: str = "") -> Iterator[dict[str, Any]]:
    """The journal's events whose lines contain one of ``signs``, a filter needed because a large sweep has millions of
    events. Skips incomplete lines. ``where``: the sweep's folder."""
    for path in store.list(f"{where}events"):
        for line in store.read(path).splitlines():
            if any(sign in line for sign in signs):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue
