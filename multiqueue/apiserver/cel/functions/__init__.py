"""The function libraries that Kubernetes adds to CEL."""

from multiqueue.apiserver.cel.functions.comparisons import COMPARISONS
from multiqueue.apiserver.cel.functions.formats import FORMATS
from multiqueue.apiserver.cel.functions.function import Function, Opaque, Overload
from multiqueue.apiserver.cel.functions.lists import LISTS
from multiqueue.apiserver.cel.functions.network import NETWORK
from multiqueue.apiserver.cel.functions.quantities import QUANTITIES
from multiqueue.apiserver.cel.functions.texts import TEXTS
from multiqueue.apiserver.cel.functions.urls import URLS

FUNCTIONS: tuple[Function, ...] = (*LISTS, *TEXTS, *URLS, *QUANTITIES, *NETWORK, *FORMATS)
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
