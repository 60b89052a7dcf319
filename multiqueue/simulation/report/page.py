"""The comparison as one page that needs nothing beside itself."""

from __future__ import annotations

from multiqueue.simulation.compare import Comparison


def build_page(comparison: Comparison) -> str:
    """Return the page."""
    return str(comparison.plan)
