"""Ages as kubectl shows them: ``42s``, ``5m12s``, ``2d3h``."""

from datetime import datetime

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# (below so many seconds, unit, smaller unit or 0, their names): the larger, the coarser.
_STEPS = (
    (10 * _MINUTE, _MINUTE, 1, "m", "s"),
    (3 * _HOUR, _MINUTE, 0, "m", ""),
    (8 * _HOUR, _HOUR, _MINUTE, "h", "m"),
    (48 * _HOUR, _HOUR, 0, "h", ""),
    (8 * _DAY, _DAY, _HOUR, "d", "h"),
    (2 * _YEAR, _DAY, 0, "d", ""),
    (8 * _YEAR, _YEAR, _DAY, "y", "d"),
)


def human_duration(seconds: float) -> str:
    """A duration in at most two units."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    for below, unit, smaller, name, smaller_name in _STEPS:
        if whole < below:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{name}" + (f"{rest}{smaller_name}" if rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: object, now: datetime) -> str:
    """The time since an RFC 3339 timestamp, in words."""
    if not timestamp:
        return UNKNOWN
    try:
        moment = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return INVALID
    if moment.tzinfo is None:
        return INVALID
    return human_duration((now - moment).total_seconds())


def between(start: object, end: object, now: datetime) -> str:
    """The time from start to end (now if there is none yet); empty without a start."""
    if not start:
        return ""
    begin = datetime.fromisoformat(str(start))
    finish = datetime.fromisoformat(str(end)) if end else now
    return human_duration((finish - begin).total_seconds())
