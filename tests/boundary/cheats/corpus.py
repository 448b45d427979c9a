"""Every cheat there is, by the place where it works."""

from tests.boundary.cheats import before_tests, handed_in, living, odd_tars, solver_side, while_tested
from tests.boundary.cheats.cheat import Cheat

PLACES: dict[str, tuple[Cheat, ...]] = {
    "Handed in": handed_in.CHEATS,
    "By the shape of the submission": odd_tars.CHEATS,
    "From the solver's sandbox": solver_side.CHEATS,
    "Before the tests come": before_tests.CHEATS,
    "While the tests run": while_tested.CHEATS,
    "By root, living on in shared grading": living.CHEATS,
}
CORPUS: tuple[Cheat, ...] = tuple(cheat for cheats in PLACES.values() for cheat in cheats)
_OF_EACH_KIND = {
    "reward files handed in", "a changed program", "conftest.py above the tests", "the workspace is a link",
    "a background writer", "a patched stdlib", "leaves with a reward", "a reward moved into place",
    "a daemon forked at import", "a killed parent", "a compiler for the look",
}  # fmt: skip
"""The rules are those of isolated grading in bubblewrap, where every run tries all of them."""


def tried_in(mode: str, *, everything: bool) -> tuple[Cheat, ...]:
    """The cheats that are tried in a mode of grading: all, or one of each kind and those that live on."""
    kept = tuple(cheat for cheat in CORPUS if everything or cheat.living or cheat.name in _OF_EACH_KIND)
    return kept if mode == "shared" else tuple(cheat for cheat in kept if not cheat.living)
