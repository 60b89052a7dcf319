"""The lines that say when a Workload is expected to start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from multiqueue.views.start import say_caveats, say_start

CALIBRATION_HEADERS = ("STAGE", "AHEAD", "CHECKED", "EARLIER", "IN RANGE", "LATER", "FACTOR")


def list_start_lines(start: Mapping[str, Any], why: str = "") -> list[str]:
    """Return the estimate in local time, and a line for each caveat and for its calibration.

    Args:
        start: The estimate.
        why: Reason and message that the reader sees beside it, so that it is not told twice.
    """
    said = say_start(start, datetime.now(UTC).astimezone())
    _, colon, message = why.partition(": ")
    said = said.removesuffix(f"{colon}{message}") if message else said
    more = say_caveats(start)
    if calibration := start.get("calibration"):
        more.append(calibration["words"])
    return [f"Start:  {said}", *(f"        {each}" for each in more)]


def list_calibration_rows(rows: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Return a row for each stage and horizon; shares are ``-`` if nothing was checked."""
    table = []
    for row in rows:
        judged = row["judged"]
        shares = [
            f"{100 * row[name] / judged:.0f} %" if judged else "-"
            for name in ("early", "inside", "late")
        ]
        factor = row.get("factor")  # a manager of 0.1 has none
        shown = "-" if factor is None else f"{factor:g}"
        table.append([row["stage"], row["horizon"], judged, *shares, shown])
    return table
