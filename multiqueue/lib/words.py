"""Tables of words."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for a list of names that is read as one."""
    return tuple(text.split())
