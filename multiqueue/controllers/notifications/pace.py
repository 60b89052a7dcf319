"""How many notifications a namespace may cause. Pure."""

from __future__ import annotations

from dataclasses import dataclass

BURST, PER_SECOND = 30.0, 10 / 60
"""Parity: S-167."""
MAX_NAMESPACES = 10_000
"""Namespaces that are remembered; then all may send again."""


@dataclass(slots=True)
class _Allowance:
    tokens: float
    filled_at: float
    omitted: int = 0


class NamespacePace:
    """A token bucket for each namespace: 30 at once, then ten a minute."""

    def __init__(self) -> None:
        self._known: dict[str, _Allowance] = {}

    def take(self, namespace: str, now: float) -> int | None:
        """Return how many were left out since the last one that was sent; None: leave this out.

        Args:
            namespace: The namespace.
            now: Any clock, in seconds.
        """
        known = self._known.get(namespace)
        if known is None:
            if len(self._known) >= MAX_NAMESPACES:
                self._known.clear()
            known = self._known[namespace] = _Allowance(BURST, now)
        known.tokens = min(BURST, known.tokens + (now - known.filled_at) * PER_SECOND)
        known.filled_at = now
        if known.tokens < 1:
            known.omitted += 1
            return None
        known.tokens -= 1
        omitted, known.omitted = known.omitted, 0
        return omitted
