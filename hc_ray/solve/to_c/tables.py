"""What of Python's library is carried over: name → function of the runtime.

An entry reads ``function parameter parameter?``: those with ``?`` may be left out. ``!`` before the function says
that a call may change something (an iterator that it goes through too), so that it keeps its place in the order;
``*`` before a parameter that it is gone through to its end at once, so that a generator expression may be a list."""

import math
import re
import string
from collections.abc import Mapping
from typing import NamedTuple


class Routine(NamedTuple):
    """A function of the runtime as a call sees it."""

    function: str
    parameters: tuple[str, ...]
    required: int
    consumed: frozenset[str]
    """Parameters that are gone through to their end at once."""
    changes: bool


def _routines(entries: Mapping[str, str]) -> dict[str, Routine]:
    return {name: _routine(entry) for name, entry in entries.items()}


def _routine(entry: str) -> Routine:
    function, *parameters = entry.split()
    names = tuple(name.strip("*?") for name in parameters)
    consumed = frozenset(name.strip("*?") for name in parameters if name.startswith("*"))
    required = sum(not name.endswith("?") for name in parameters)
    return Routine(function.lstrip("!"), names, required, consumed, function.startswith("!"))


BUILTINS = _routines(
    {
        "_typed": "py_typed arguments",
        "abs": "py_abs x",
        "bin": "py_bin x",
        "chr": "py_chr x",
        "dict": "!py_to_dict *items?",
        "divmod": "py_divmod a b",
        "enumerate": "!py_enumerate iterable start?",
        "exit": "!py_exit status?",
        "filter": "!py_filter function iterable",
        "float": "py_to_float x",
        "format": "py_format value format_spec?",
        "hex": "py_hex x",
        "input": "!py_input prompt?",
        "int": "py_to_int x base?",
        "iter": "!py_to_iter x",
        "list": "!py_to_list *items?",
        "next": "!py_next_value iterator default?",
        "oct": "py_oct x",
        "ord": "py_ord x",
        "quit": "!py_exit status?",
        "range": "py_range start stop? step?",
        "repr": "py_repr x",
        "reversed": "!py_reversed x",
        "round": "py_round number ndigits?",
        "set": "!py_to_set *items?",
        "sorted": "!py_sorted *iterable key? reverse?",
        "str": "py_to_str object",
        "sum": "!py_sum *iterable start?",
        "tuple": "!py_to_tuple *items?",
    }
)
"""Those without a rule of their own in ``calls``."""
EMPTY = {
    "int": "py_int(0)",
    "float": "py_float(0.0)",
    "str": 'py_str("")',
    "bool": "py_bool(0)",
    "tuple": "py_tuple_of(0, NULL)",
}
"""What a type gives without an argument."""

MODULES = _routines(
    {
        "collections.Counter": "!py_counter *iterable?",
        "functools.reduce": "!py_reduce function *iterable initial?",
        "math.ceil": "py_ceil x",
        "math.comb": "py_combinations n k",
        "math.fabs": "py_fabs x",
        "math.factorial": "py_factorial n",
        "math.floor": "py_floor x",
        "math.gcd": "py_gcd a b",
        "math.isinf": "py_is_inf x",
        "math.isnan": "py_is_nan x",
        "math.isqrt": "py_isqrt n",
        "math.lcm": "py_lcm a b",
        "math.pow": "py_math_power x y",
        "math.prod": "!py_product *iterable",
        "math.sqrt": "py_sqrt x",
        "math.trunc": "py_trunc x",
        "sys.exit": "!py_exit status?",
        "sys.stdin.read": "!py_input_rest",
        "sys.stdin.readline": "!py_input_line",
    }
)
TEXTS = {
    f"string.{name}": getattr(string, name)
    for name in (
        "ascii_letters",
        "ascii_lowercase",
        "ascii_uppercase",
        "digits",
        "hexdigits",
        "octdigits",
        "punctuation",
    )
}
NUMBERS: dict[str, float] = {
    "math.pi": math.pi,
    "math.e": math.e,
    "math.tau": math.tau,
    "math.inf": math.inf,
    "sys.maxsize": 2**63 - 1,
}

METHODS = _routines(
    {
        "add": "!py_add_item item",
        "append": "!py_list_append item",
        "bit_length": "py_bit_length",
        "capitalize": "py_capitalize",
        "center": "py_centered width fill?",
        "clear": "!py_clear",
        "copy": "py_copy",
        "count": "py_count item start? stop?",
        "difference": "!py_difference *other",
        "discard": "!py_discard item",
        "elements": "py_elements",
        "endswith": "py_ends_with suffix start? stop?",
        "extend": "!py_list_extend *items",
        "find": "py_find item start? stop?",
        "get": "py_get key default?",
        "index": "py_index item start? stop?",
        "insert": "!py_insert index item",
        "intersection": "!py_intersection *other",
        "is_integer": "py_is_integer",
        "isalnum": "py_is_alnum",
        "isalpha": "py_is_alpha",
        "isdecimal": "py_is_digit",
        "isdigit": "py_is_digit",
        "isdisjoint": "!py_is_disjoint *other",
        "islower": "py_is_lower",
        "isnumeric": "py_is_digit",
        "isspace": "py_is_space",
        "issubset": "!py_is_subset *other",
        "issuperset": "!py_is_superset *other",
        "isupper": "py_is_upper",
        "items": "py_items",
        "join": "!py_join *items",
        "keys": "py_keys",
        "ljust": "py_left_justified width fill?",
        "lower": "py_lower",
        "lstrip": "py_strip_left chars?",
        "most_common": "py_most_common n?",
        "partition": "py_partition sep",
        "pop": "!py_pop key? default?",
        "popitem": "!py_pop_item",
        "remove": "!py_remove item",
        "removeprefix": "py_remove_prefix prefix",
        "removesuffix": "py_remove_suffix suffix",
        "replace": "py_replace old new count?",
        "reverse": "!py_reverse",
        "rfind": "py_find_last item start? stop?",
        "rindex": "py_index_last item start? stop?",
        "rjust": "py_right_justified width fill?",
        "rpartition": "py_partition_right sep",
        "rsplit": "py_split_right sep? maxsplit?",
        "rstrip": "py_strip_right chars?",
        "setdefault": "!py_set_default key default?",
        "sort": "!py_sort key? reverse?",
        "split": "py_split sep? maxsplit?",
        "splitlines": "py_split_lines keepends?",
        "startswith": "py_starts_with prefix start? stop?",
        "strip": "py_strip chars?",
        "swapcase": "py_swapcase",
        "symmetric_difference": "!py_symmetric_difference *other",
        "title": "py_title",
        "union": "!py_union *other?",
        "update": "!py_update *items",
        "upper": "py_upper",
        "values": "py_values",
        "zfill": "py_zero_filled width",
    }
)
KEYWORDS = {
    "sort": {"key", "reverse"},
    "split": {"sep", "maxsplit"},
    "rsplit": {"sep", "maxsplit"},
    "splitlines": {"keepends"},
    "most_common": {"n"},
    "sorted": {"key", "reverse"},
    "enumerate": {"iterable", "start"},
    "int": {"base"},
    "sum": {"start"},
    "round": {"number", "ndigits"},
    "str": {"object"},
    "math.prod": set[str](),
}
"""Which parameters may be named in a call; of all others none. Those of ``sort`` and ``sorted`` must be."""
ONLY_NAMED = {"sort": 0, "sorted": 1}
"""How many arguments may go without a name, where the rest must have one."""

OPERATORS = {
    "Add": "py_add",
    "Sub": "py_subtract",
    "Mult": "py_multiply",
    "Div": "py_divide",
    "FloorDiv": "py_floor_divide",
    "Mod": "py_modulo",
    "Pow": "py_power",
    "BitAnd": "py_bit_and",
    "BitOr": "py_bit_or",
    "BitXor": "py_bit_xor",
    "LShift": "py_shift_left",
    "RShift": "py_shift_right",
}
TYPES = ("bool", "dict", "float", "int", "list", "set", "str", "tuple")
"""Types that ``isinstance`` is answered for."""
ERRORS = frozenset(
    re.findall(
        r"\w+",
        """ArithmeticError AssertionError AttributeError BaseException EOFError Exception IndexError KeyError
        LookupError NameError NotImplementedError OverflowError StopIteration SystemExit TypeError
        RecursionError RuntimeError UnboundLocalError ValueError ZeroDivisionError""",
    )
)
