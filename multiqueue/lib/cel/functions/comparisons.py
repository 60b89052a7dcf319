"""Comparison of numbers of different types: the checker allows it, the run time can do it."""

from itertools import permutations

_NUMBERS = {"int": "int64", "uint": "uint64", "double": "double"}
_OPERATORS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}

COMPARISONS: dict[str, tuple[tuple[str, str, str], ...]] = {
    operator: tuple(
        (f"{id_}_{_NUMBERS[left]}_{_NUMBERS[right]}", left, right)
        for left, right in permutations(_NUMBERS, 2)
    )
    for operator, id_ in _OPERATORS.items()
}
"""By operator: (id, left type, right type)."""
