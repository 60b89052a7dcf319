"""The lines that say when a Workload is expected to start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from multiqueue.views.start import say_caveats, say_start


def list_start_lines(start: Mapping[str, Any]) -> list[str]:
    """Return the estimate in local time, and a line for each of its caveats."""
    said = say_start(start, datetime.now(UTC).astimezone())
    return [f"Start:  {said}", *(f"        {each}" for each in say_caveats(start))]
