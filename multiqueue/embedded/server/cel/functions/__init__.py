"""The function libraries that Kubernetes adds to CEL."""

from multiqueue.embedded.server.cel.functions.comparisons import COMPARISONS
from multiqueue.embedded.server.cel.functions.formats import FORMATS
from multiqueue.embedded.server.cel.functions.function import Function, Opaque, Overload
from multiqueue.embedded.server.cel.functions.lists import LISTS
from multiqueue.embedded.server.cel.functions.network import NETWORK
from multiqueue.embedded.server.cel.functions.quantities import QUANTITIES
from multiqueue.embedded.server.cel.functions.texts import TEXTS
from multiqueue.embedded.server.cel.functions.urls import URLS

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
