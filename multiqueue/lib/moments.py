"""Times that somebody else wrote, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(moment: datetime) -> datetime:
    """Return the same time, aware UTC.

    Raises:
        ValueError: in UTC it is before the year 1 or after the year 9999; `datetime` itself raises
            an `OverflowError`, which readers of texts do not expect.
    """
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f'the time "{moment.isoformat()}" is out of range') from error
