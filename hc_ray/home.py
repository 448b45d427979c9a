"""Where hc-ray keeps things on a machine, and where its shipped data is found (in a wheel and in a checkout)."""

import os
from pathlib import Path


def data_root() -> Path:
    """The folder of weights, runner, public task copies and sandbox states.

    ``HC_RAY_HOME``, else ``/var/lib/hc-ray`` for root (a sandbox run by root drops to an unprivileged user that cannot
    enter root's home), else ``$XDG_DATA_HOME/hc-ray``."""
    if given := os.environ.get("HC_RAY_HOME"):
        return Path(given).expanduser().resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/hc-ray")
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser().resolve() / "hc-ray"


def configs_dir() -> Path:
    """The shipped ``configs/``: package data in a wheel, the checkout's folder in an editable install."""
    packaged = Path(__file__).parent / "_configs"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "configs"
