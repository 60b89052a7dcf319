"""Short texts for durations and ages."""

from __future__ import annotations

from datetime import datetime


def format_age(since: datetime | None, now: datetime) -> str:
    """Return the time from ``since`` to now: ``12s``, ``5m``, ``3h12m``, ``4d``."""
    return "-" if since is None else format_seconds((now - since).total_seconds())


def format_seconds(seconds: float) -> str:
    """Return a duration in kubectl's form, with two units at most."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 120:
        return f"{minutes}m"
    if hours < 48:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d"
