"""Kubernetes quantities: exact numbers with a unit suffix, such as ``500m``, ``1.5Gi`` or ``12e6``.

Parsing is exact down to nano; finer digits round away from zero. As in Kubernetes, decimal
numbers of up to 18 digits keep magnitudes above 2**63-1 (``100E``), all others are capped there.
Callers that need an int64 handle larger values. Values compare by number: ``1000m == 1``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, total_ordering

NANO = 10**9
"""The resolution: the number of parts of one whole unit."""
MAX_INT64 = 2**63 - 1

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<tail>[0-9]*))?|\.(?P<fraction>[0-9]+))"
    r"(?P<suffix>[A-Za-z]*)(?P<exponent>[+-]?[0-9]*)",
    re.ASCII,
)
_DECIMAL_SUFFIXES = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_NAMES = {power: suffix for suffix, power in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_SUFFIXES = {suffix: 1024**i for i, suffix in enumerate(_BINARY_NAMES) if suffix}
_SUFFIX_LIST = ", ".join([*(s for s in _DECIMAL_SUFFIXES if s), *_BINARY_SUFFIXES])
_MAX_DIGITS = 60
"""Most digits: more cannot change a value that fits, and hostile input costs little work."""


class QuantityError(ValueError):
    """A text that is not a quantity; the message says what is wrong with it."""


class QuantityFormat(Enum):
    """The family of suffixes in which a quantity was written and is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An exact number of resource units.

    Units: ``nano`` is in 1/1,000,000,000 of a whole unit.
    """

    nano: int
    format: QuantityFormat = QuantityFormat.DECIMAL_SI

    @classmethod
    def of(cls, value: int, format_: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """The quantity of that many whole units."""
        return cls(value * NANO, format_)

    @classmethod
    def of_milli(cls, value: int, format_: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """The quantity of that many thousandths."""
        return cls(value * (NANO // 1000), format_)

    def value(self) -> int:
        """Whole units, rounded up (away from zero), as Kubernetes' ``Quantity.Value``."""
        return _divide_away_from_zero(self.nano, NANO)

    def milli_value(self) -> int:
        """Thousandths, rounded up (away from zero), as Kubernetes' ``Quantity.MilliValue``."""
        return _divide_away_from_zero(self.nano, NANO // 1000)

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def __float__(self) -> float:
        """The nearest float64, in whole units."""
        return self.nano / NANO

    def __bool__(self) -> bool:
        return self.nano != 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.format)

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that loses nothing."""
        if self.format is QuantityFormat.BINARY_SI and abs(self.nano) >= 1024 * NANO:
            return _format_binary(self.value())
        return _format_decimal(self.nano, self.format)


def parse_quantity(raw: str | float) -> Quantity:
    """Read a quantity as it stands in JSON: a string, an integer or a float.

    Raises:
        QuantityError: the text is not a quantity.
    """
    if isinstance(raw, str):
        return _parse_known(raw) if len(raw) <= _MAX_DIGITS else _parse_text(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise QuantityError(f"a quantity is a string or a number, not {type(raw).__name__}")
    if isinstance(raw, int):
        return Quantity.of(max(-MAX_INT64, min(MAX_INT64, raw)))
    if not math.isfinite(raw):
        raise QuantityError(f"{raw} is not a finite number")
    return _parse_text(repr(raw))


@lru_cache(maxsize=65_536)
def _parse_known(raw: str) -> Quantity:
    """Parse a short text with a cache; longer texts are not cached, to save memory."""
    return _parse_text(raw)


def _parse_text(raw: str) -> Quantity:
    text = raw.strip()
    if not text:
        raise QuantityError(
            'a quantity must not be empty; write a number such as "1", "500m" or "2Gi"'
        )
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(
            f'"{_shorten(text)}" is not a quantity; write a decimal number and at most one suffix, '
            'such as "1", "500m" or "2Gi"'
        )
    whole, tail = match["whole"] or "", match["tail"] or match["fraction"] or ""
    multiplier, power, format_ = _read_suffix(text, match["suffix"], match["exponent"])
    nano = _scale(whole, tail, power + 9) * multiplier
    nano = _divide_away_from_zero(nano, _GUARD)
    if format_ is QuantityFormat.BINARY_SI or len(whole.lstrip("0") + tail) > 18:
        nano = min(nano, MAX_INT64 * NANO)
    if format_ is QuantityFormat.BINARY_SI and 0 < nano < NANO:
        format_ = QuantityFormat.DECIMAL_SI
    return Quantity(-nano if match["sign"] == "-" else nano, format_)


_GUARD = 10**12
"""Extra digits kept while scaling, so that fractions of large binary units still round right."""


def _scale(whole: str, tail: str, power: int) -> int:
    """Return ceil(whole.tail * 10**power * _GUARD), with bounded work whatever the input."""
    digits = (whole + tail).lstrip("0")
    if not digits:
        return 0
    shift = power + 12 - len(tail)
    if len(digits) + shift > _MAX_DIGITS:
        return MAX_INT64 * NANO * _GUARD
    if len(digits) + shift < 0:
        return 1
    if shift >= 0:
        return int(digits + "0" * shift)
    kept, lost = digits[:shift], digits[shift:]
    return int(kept or "0") + bool(lost.strip("0"))


def _read_suffix(text: str, suffix: str, exponent: str) -> tuple[int, int, QuantityFormat]:
    """Return (binary multiplier, power of ten, format)."""
    if exponent:
        if suffix not in {"e", "E"} or exponent in {"+", "-"}:
            raise QuantityError(
                f'"{_shorten(text)}" has a misplaced or incomplete exponent; write e.g. "12e6"'
            )
        power = int(exponent[:10])
        return 1, max(-200, min(200, power)), QuantityFormat.DECIMAL_EXPONENT
    if suffix in _BINARY_SUFFIXES:
        return _BINARY_SUFFIXES[suffix], 0, QuantityFormat.BINARY_SI
    if suffix in _DECIMAL_SUFFIXES:
        return 1, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    if suffix == "e":
        raise QuantityError(f'"{_shorten(text)}" has an exponent without digits; write e.g. "12e6"')
    raise QuantityError(
        f'"{_shorten(text)}" has the unknown suffix "{_shorten(suffix)}"; '
        f"supported suffixes: {_SUFFIX_LIST}"
    )


def _format_decimal(nano: int, format_: QuantityFormat) -> str:
    if nano == 0:
        return "0"
    power = -9
    while nano % 1000 == 0 and (power < 18 or format_ is QuantityFormat.DECIMAL_EXPONENT):
        nano //= 1000
        power += 3
    if format_ is QuantityFormat.DECIMAL_EXPONENT:
        return f"{nano}e{power}" if power else str(nano)
    return f"{nano}{_DECIMAL_NAMES[power]}"


def _format_binary(value: int) -> str:
    step = 0
    while value % 1024 == 0 and step < len(_BINARY_NAMES) - 1:
        value //= 1024
        step += 1
    return f"{value}{_BINARY_NAMES[step]}"


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
