"""Imports of other people's packages without what nobody here needs of them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace


@contextmanager
def without_pandas() -> Iterator[None]:
    """What is imported meanwhile does without pandas, half a second of processor time, as it does where that is not
    installed. No other thread may import pandas meanwhile."""

    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)

    sys.meta_path.insert(0, refusing := SimpleNamespace(find_spec=find_spec))
    try:
        yield
    finally:
        sys.meta_path.remove(refusing)
