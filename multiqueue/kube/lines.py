"""Splits texts of HTTP: lines of streams, and ``Warning`` headers. Pure."""

from __future__ import annotations


class LineSplitter:
    """Cuts a stream into lines; a last line without a line end is never returned.

    aiohttp's own readline refuses lines beyond its buffer, and a watch event may be megabytes.

    Args:
        limit: Bytes that a line may have.
    """

    def __init__(self, *, limit: int | None = None) -> None:
        self._pending = bytearray()
        self._limit = limit

    @property
    def is_beyond_limit(self) -> bool:
        """Whether the line that has not ended yet is too long already."""
        return self._limit is not None and len(self._pending) > self._limit

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next piece of the stream and return the lines that it completes."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines and self._pending:
            lines[0] = bytes(self._pending + lines[0])
            self._pending.clear()
        self._pending += last
        return [line for line in lines if line]


def parse_warnings(header: str) -> list[str]:
    """Return the texts of a ``Warning`` header: ``299 - "text"``, comma-separated."""
    texts: list[str] = []
    text: list[str] | None = None
    characters = iter(header)
    for character in characters:
        if text is None:
            text = [] if character == '"' else None
        elif character == "\\":
            text.append(next(characters, ""))
        elif character == '"':
            texts.append("".join(text))
            text = None
        else:
            text.append(character)
    return texts
