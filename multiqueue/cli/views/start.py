"""The lines that say when a Workload is expected to start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.cli.views.ages import format_seconds
from multiqueue.views.start import say_caveats, say_start


def list_start_lines(start: Mapping[str, Any]) -> list[str]:
    """Return the estimate in local time, and a line for each of its caveats."""
    said = say_start(start, datetime.now(UTC).astimezone())
    return [f"Start:  {said}", *(f"        {each}" for each in say_caveats(start))]


def say_start_shortly(start: Mapping[str, Any], now: datetime) -> str:
    """Return an estimate for a column: the time until the start; empty if there is none.

    "kept" means that room is kept for the Workload.
    """
    kept = ", kept" if start.get("promised") else ""
    at = parse_time(start.get("at") or start.get("promised"))
    if at is None:
        return ""
    seconds = (at - now).total_seconds()
    return f"in ~{format_seconds(seconds)}{kept}" if seconds > 0 else f"soon{kept}"
