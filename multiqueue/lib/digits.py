"""Whole numbers in texts that anybody writes."""

from __future__ import annotations

MAX_DIGITS = 18
"""Any such number fits into 64 bits; Python refuses to read one of more than 4,300 digits."""


def is_number(text: str) -> bool:
    """Whether a text is a whole number without a sign, which ``int`` reads."""
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal()
