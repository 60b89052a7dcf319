"""Tables of words, and counts in words."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for a list of names that is read as one."""
    return tuple(text.split())


def count_of(number: int, noun: str) -> str:
    """Return ``1 job`` or ``1,200 jobs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
