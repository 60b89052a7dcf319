"""Recognizes whole numbers in untrusted texts."""

from __future__ import annotations

MAX_DIGITS = 18
"""Most digits: such a number fits into 64 bits; Python refuses more than 4,300 digits."""


def is_number(text: str) -> bool:
    """Whether a text is a whole number without a sign that ``int`` accepts."""
    return len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal()
