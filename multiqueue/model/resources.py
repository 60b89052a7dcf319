"""Quantities of the API as integers of the engine, and back (E-1).

Units: cpu in milli, everything else in base units; fractions round up.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from multiqueue.lib.amount import LARGEST, SMALLEST, UNLIMITED, Amount
from multiqueue.lib.quantity import Quantity, QuantityFormat, parse_quantity

CPU = "cpu"
PODS = "pods"
_BINARY = frozenset({"memory", "ephemeral-storage", "storage"})
_HUGE_PAGES = "hugepages-"


def amount_of(resource: str, quantity: Quantity) -> int:
    """Return the exact number of units, which may be more than an `Amount` holds."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def is_accelerator(resource: str) -> bool:
    """Whether a resource is an accelerator, by the naming habit of device plugins."""
    return "/" in resource and resource.rpartition("/")[2].startswith(("gpu", "tpu", "neuron"))


def accelerators_of(usage: Mapping[tuple[str, str], Amount]) -> Mapping[tuple[str, str], Amount]:
    """Return what a usage by (flavor, resource) has of accelerators; all of it if it has none."""
    return {place: n for place, n in usage.items() if is_accelerator(place[1])} or usage


def parse_quota(resource: str, raw: str | float) -> Amount:
    """Read a quota; a value beyond int64 is Unlimited.

    Raises:
        QuantityError: the text is not a quantity.
    """
    value = amount_of(resource, parse_quantity(raw))
    return UNLIMITED if value >= UNLIMITED else max(SMALLEST, value)


def parse_request(resource: str, raw: str | float) -> Amount:
    """Read a request; a value beyond int64 is clamped and stays bounded.

    Raises:
        QuantityError: the text is not a quantity.
    """
    return clamp_request(amount_of(resource, parse_quantity(raw)))


def clamp_request(value: int) -> Amount:
    """Clamp a request into the bounded amounts."""
    return max(SMALLEST, min(LARGEST, value))


@lru_cache(maxsize=4096)
def format_amount(resource: str, amount: Amount) -> str:
    """Return the canonical wire quantity: ``1500m``, ``2``, ``1Gi``."""
    if resource == CPU:
        return str(Quantity.of_milli(amount))
    binary = resource in _BINARY or resource.startswith(_HUGE_PAGES)
    return str(
        Quantity.of(amount, QuantityFormat.BINARY_SI if binary else QuantityFormat.DECIMAL_SI)
    )


def is_extended(resource: str) -> bool:
    """Whether a resource is one that devices provide, such as nvidia.com/gpu."""
    prefix, slash, _ = resource.partition("/")
    is_native = not slash or prefix == "kubernetes.io" or prefix.endswith(".kubernetes.io")
    return not is_native and not resource.startswith("requests.")
