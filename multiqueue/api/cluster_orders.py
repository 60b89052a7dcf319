"""Reads the cordon and drain annotations of MultiKueueClusters. Pure.

``multiqueue.dev/cordon`` is ``true``, or the reason in words. ``multiqueue.dev/drain`` is ``true``,
or settings separated by commas: ``rate=10/min,at-once=4,not-before=2026-01-01T12:00:00Z,force``.
A value that cannot be read cordons the worker and moves nothing: a typing error must not stop jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from multiqueue.api.names import CORDON, DRAIN
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.lib.digits import is_number
from multiqueue.lib.moments import in_utc

OFF = "false"
_RATE = re.compile(r"([1-9][0-9]{0,3})/(min|h)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1)}
MAX_AT_ONCE = 1000
"""Jobs that one drain may move at a time; a larger number is a mistake in writing."""
ANY_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPace:
    """How fast a worker is drained.

    Attributes:
        every: Average time between the starts of two moves.
        at_once: Highest number of moves under way; as many may also begin together.
    """

    every: timedelta = timedelta(seconds=6)
    at_once: int = 4


DEFAULT_PACE = DrainPace()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOrder:
    """How a worker is to be drained.

    Attributes:
        pace: How fast jobs are moved.
        not_before: No job is moved before this time; None: moves begin at once.
        force: Also move jobs that fit nowhere else, or that would lose their checkpoint.
    """

    pace: DrainPace = DEFAULT_PACE
    not_before: datetime | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The cordon and drain orders for a worker.

    Attributes:
        cordoned: Whether the worker gets no new jobs; a drain is a cordon too.
        reason: The reason that the operator gave; empty if none was given.
        drain: How the worker is to be drained; None: its running jobs stay.
        text: The text of the drain annotation.
        problem: Why an annotation cannot be read; nothing is moved then.
    """

    cordoned: bool = False
    reason: str = ""
    drain: DrainOrder | None = None
    text: str = ""
    problem: str = ""

    @property
    def refusal(self) -> str:
        """Why the worker gets no new jobs, as words after its name; empty: it may get some."""
        if not self.cordoned:
            return ""
        state = "is cordoned" if self.drain is None else "is being drained"
        return f"{state} ({self.reason})" if self.reason else state


def read_orders(annotations: Mapping[str, str], default: DrainPace = DEFAULT_PACE) -> Orders:
    """Return the orders in the annotations of a MultiKueueCluster.

    Args:
        annotations: The annotations of the MultiKueueCluster.
        default: The pace of a drain that names none.
    """
    cordon = annotations.get(CORDON, OFF).strip()
    drain = annotations.get(DRAIN, OFF).strip()
    reason = "" if cordon in {"", "true", OFF} else cordon
    if drain == OFF:
        return Orders(cordoned=cordon != OFF, reason=reason)
    try:
        order = parse_drain(drain, default)
    except ValueError as error:
        problem = f'annotation "{DRAIN}": {error}'
        return Orders(cordoned=True, reason=reason, text=drain, problem=problem)
    return Orders(cordoned=True, reason=reason, drain=order, text=drain)


def parse_drain(text: str, default: DrainPace = DEFAULT_PACE) -> DrainOrder:
    """Read the value of the drain annotation.

    Raises:
        ValueError: it cannot be read; the message names the part and the allowed values.
    """
    order = DrainOrder(pace=default)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if part == "true":
            continue
        if name == "rate":
            order = replace(order, pace=replace(order.pace, every=parse_rate(value)))
        elif name == "at-once":
            order = replace(order, pace=replace(order.pace, at_once=_parse_count(value)))
        elif name == "not-before":
            order = replace(order, not_before=_parse_moment(value))
        elif part in {"force", "force=true", "force=false"}:
            order = replace(order, force=part != "force=false")
        else:
            raise ValueError(f'"{part}": use true, rate=N/min, at-once=N, not-before=TIME or force')
    return order


def parse_rate(text: str) -> timedelta:
    """Return the time between two moves for a rate: ``10/min``, ``2/h``, or ``10`` (a minute).

    Raises:
        ValueError: the text is not a rate.
    """
    match = _RATE.fullmatch(text if "/" in text else f"{text}/min")
    if match is None:
        raise ValueError(f'rate "{text}": use N/min or N/h, N from 1 to 9999')
    return _UNITS[match[2]] / int(match[1])


def format_drain(
    *,
    rate: str = "",
    at_once: int = 0,
    not_before: datetime | None = None,
    force: bool | None = None,
    known: str = "",
) -> str:
    """Return the value of the drain annotation.

    Args:
        rate: The rate, as `parse_rate` reads it; empty: as before.
        at_once: Moves at a time; 0: as before.
        not_before: When moves may begin; None: as before; `ANY_TIME`: at once.
        force: Whether to move jobs that fit nowhere else; None: as before.
        known: The present order; the manager decides settings that neither gives.
    """
    given = {
        "rate": f"rate={rate}" if rate else None,
        "at-once": f"at-once={at_once}" if at_once else None,
        "not-before": _format_start(not_before) if not_before is not None else None,
        "force": None if force is None else "force" if force else "",
    }
    parts = _read_parts(known)
    parts.update({name: part for name, part in given.items() if part is not None})
    return ",".join(parts[name] for name in given if parts.get(name)) or "true"


def _format_start(not_before: datetime) -> str:
    return "" if not_before == ANY_TIME else f"not-before={format_time(not_before)}"


def _read_parts(text: str) -> dict[str, str]:
    """Return the settings of an order by name; empty if it cannot be read."""
    try:
        parse_drain(text)
    except ValueError:
        return {}
    parts = (part.strip() for part in text.split(","))
    return {part.partition("=")[0].strip(): part for part in parts if part != "force=false"}


def _parse_count(text: str) -> int:
    if not is_number(text) or not 1 <= int(text) <= MAX_AT_ONCE:
        raise ValueError(f'at-once "{text}": use a number from 1 to {MAX_AT_ONCE}')
    return int(text)


def _parse_moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        found = in_utc(moment) if moment.tzinfo is not None else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError(f'not-before "{text}": use a time such as 2026-01-31T12:00:00Z')
    return found
