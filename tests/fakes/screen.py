"""What a person is shown, as text."""

import contextlib
import io
from collections.abc import Callable
from typing import Any

from rich.console import Console

from hc_ray.reports.terminal import Progress


def said(tell: Callable[..., object], *told: Any, **more: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        tell(*told, **more)
    return stream.getvalue()


def drawn(progress: Progress) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(progress.render())
    return console.export_text()
