"""The wire format of protobuf: numbered fields with their raw values.

Written by hand: the ``protobuf`` package decodes only what it has generated classes for, and
Kubernetes' messages are in no package. These 60 lines and a table of numbers are all it takes.
"""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MASK64 = (1 << 64) - 1

Value = int | bytes
"""A varint's 64 bits, or the bytes of everything else."""


class Malformed(Exception):  # noqa: N818 - a state of bytes, as Kubernetes words it
    """The bytes are not what they claim to be; ``str()`` says where."""


def read_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """(field number, wire type, value) of a message, in their order.

    Raises:
        Malformed: while iterating.
    """
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, wire_type = key >> 3, key & 7
        if not number:
            raise Malformed("field number 0")
        if wire_type == VARINT:
            value, position = _read_varint(data, position)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            size, position = _read_varint(data, position)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise Malformed(f"field {number} has the unknown wire type {wire_type}")
        end = position + size
        if end > len(data):
            raise Malformed(f"unexpected EOF in field {number}")
        yield number, wire_type, data[position:end]
        position = end


def read_packed(data: bytes) -> Iterator[int]:
    """The varints of a packed list.

    Raises:
        Malformed: while iterating.
    """
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position)
        yield value


def signed(value: int, bits: int) -> int:
    """The lowest bits as a two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for index in range(_MAX_VARINT_BYTES):
        if position + index >= len(data):
            raise Malformed("unexpected EOF in a number")
        byte = data[position + index]
        result |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return result & _MASK64, position + index + 1
    raise Malformed("a number is longer than 64 bits")
