"""Every cheat there is, by the place where it works."""

from tests.boundary.cheats import handed_in, living, odd_tars, solver_side, while_tested
from tests.boundary.cheats.cheat import Cheat

PLACES: dict[str, tuple[Cheat, ...]] = {
    "Handed in": handed_in.CHEATS,
    "By the shape of the submission": odd_tars.CHEATS,
    "From the solver's sandbox": solver_side.CHEATS,
    "While the tests run": while_tested.CHEATS,
    "By root, living on in shared grading": living.CHEATS,
}
CORPUS: tuple[Cheat, ...] = tuple(cheat for cheats in PLACES.values() for cheat in cheats)
_ALSO_SHARED = {
    "reward files handed in", "a changed program", "conftest.py above the tests", "the workspace is a link",
    "a background writer", "a patched stdlib", "leaves with a reward", "a daemon forked at import", "a killed parent",
}  # fmt: skip
"""One of each kind: the rules are those of isolated grading, and every run need not try all of them in both modes."""


def tried_in(mode: str, *, everything: bool) -> tuple[Cheat, ...]:
    """The cheats that a run tries in a mode of grading; ``everything`` for the run that writes the page."""
    if mode != "shared":
        return tuple(cheat for cheat in CORPUS if not cheat.living)
    return tuple(cheat for cheat in CORPUS if everything or cheat.living or cheat.name in _ALSO_SHARED)
