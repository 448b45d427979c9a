"""Figures that this machine remembers from one command to the next: a JSON object a kind, in the data root."""

import json
from typing import Any

from hc_ray.machine.paths import data_root
from hc_ray.machine.whole_files import beside


def recall(kind: str, key: str) -> Any:
    """What was remembered last; None where there is nothing, or nothing that can be read."""
    try:
        return json.loads((data_root() / f"{kind}.json").read_text())[key]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(kind: str, key: str, figure: Any) -> None:
    """Keep a figure in the place of an earlier one."""
    path = data_root() / f"{kind}.json"
    try:
        known = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        known = {}
    known[key] = figure
    with beside(path, json.dumps(known, indent=1).encode(), lasting=False) as new:
        new.replace(path)
