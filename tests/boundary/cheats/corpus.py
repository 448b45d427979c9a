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
