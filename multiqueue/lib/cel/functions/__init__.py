"""The function libraries that Kubernetes adds to CEL."""

from multiqueue.lib.cel.functions.comparisons import COMPARISONS
from multiqueue.lib.cel.functions.function import Function, Opaque, Overload
from multiqueue.lib.cel.functions.lists import LISTS
from multiqueue.lib.cel.functions.quantities import QUANTITIES
from multiqueue.lib.cel.functions.texts import TEXTS

FUNCTIONS: tuple[Function, ...] = (*LISTS, *TEXTS, *QUANTITIES)
"""Everything that is called; each name may have overloads in several libraries."""

OPAQUE_TYPES: tuple[Opaque, ...] = tuple(
    {
        param.name: param
        for function in FUNCTIONS
        for overload in function.overloads
        for param in (*overload.params, overload.result)
        if isinstance(param, Opaque)
    }.values()
)

__all__ = ["COMPARISONS", "FUNCTIONS", "OPAQUE_TYPES", "Function", "Opaque", "Overload"]
