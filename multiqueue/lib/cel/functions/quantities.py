"""Quantities: ``quantity("1Gi")`` and its arithmetic."""

from fractions import Fraction

from multiqueue.lib.cel.functions.function import (
    Opaque,
    Overload,
    function,
    method,
    plain,
)
from multiqueue.lib.quantity import NANO, Quantity, QuantityError, parse_quantity

QUANTITY = Opaque(
    name="kubernetes.Quantity",
    read=lambda nano: Quantity(int(nano)),
    write=lambda quantity: str(quantity.nano),
)
_Q = QUANTITY


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _is_integer(quantity: Quantity) -> bool:
    return quantity.nano % NANO == 0 and -(2**63) <= quantity.nano // NANO < 2**63


def _as_integer(quantity: Quantity) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return quantity.nano // NANO


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.nano > right.nano) - (left.nano < right.nano)


QUANTITIES = (
    plain("quantity", "string_to_quantity", ("string",), _Q, parse_quantity),
    plain("isQuantity", "is_quantity_string", ("string",), "bool", _is_quantity),
    plain("sign", "quantity_sign", (_Q,), "int", lambda quantity: quantity.sign),
    method("isGreaterThan", "quantity_is_greater", (_Q, _Q), "bool", lambda a, b: a > b),
    method("isLessThan", "quantity_is_less", (_Q, _Q), "bool", lambda a, b: a < b),
    method("compareTo", "quantity_compare_to", (_Q, _Q), "int", _compare),
    method(
        "asApproximateFloat",
        "quantity_get_float",
        (_Q,),
        "double",
        lambda quantity: float(Fraction(quantity.nano, NANO)),
    ),
    method("asInteger", "quantity_get_int", (_Q,), "int", _as_integer),
    method("isInteger", "quantity_is_integer", (_Q,), "bool", _is_integer),
    function(
        "add",
        Overload(
            id="quantity_add", params=(_Q, _Q), result=_Q, member=True, call=lambda a, b: a + b
        ),
        Overload(
            id="quantity_add_int",
            params=(_Q, "int"),
            result=_Q,
            member=True,
            call=lambda a, b: a + Quantity.of(b),
        ),
    ),
    function(
        "sub",
        Overload(
            id="quantity_sub", params=(_Q, _Q), result=_Q, member=True, call=lambda a, b: a - b
        ),
        Overload(
            id="quantity_sub_int",
            params=(_Q, "int"),
            result=_Q,
            member=True,
            call=lambda a, b: a - Quantity.of(b),
        ),
    ),
)
