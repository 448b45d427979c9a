"""A small Python function as a C program: small models write the right Python more often than any C.

``program`` translates; ``Untranslatable`` says what it refuses. What it accepts means in C what it means in Python
3.11; a value that C's integers of 64 bits, or texts without Unicode's tables, cannot stand for ends the program with
exit code 1."""

from hc_ray.solve.to_c.errors import Untranslatable
from hc_ray.solve.to_c.program import program

__all__ = ["Untranslatable", "program"]
