"""Events of a job from all clusters as a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.names import CLUSTER
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.jobs.belongings import event_time
from multiqueue.views.ages import format_age

HEADERS = ("LAST SEEN", "CLUSTER", "TYPE", "REASON", "OBJECT", "MESSAGE")
Event = Mapping[str, Any]


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Return events by the time at which they last happened, then by cluster."""
    return sorted(events, key=lambda event: (_moment(event), cluster_of_event(event)))


def event_row(event: Event, now: datetime) -> list[str]:
    """Return the cells of one event."""
    about = event["involvedObject"]
    count = (event.get("series") or {}).get("count") or event.get("count") or 1
    age = format_age(parse_time(event_time(event)), now)
    return [
        f"{age} (x{count})" if count > 1 else age,
        cluster_of_event(event),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        event.get("message", ""),
    ]


def cluster_of_event(event: Event) -> str:
    """Return the worker of an event; empty for the user's cluster."""
    found: str = (event["metadata"].get("annotations") or {}).get(CLUSTER, "")
    return found


def _moment(event: Event) -> str:
    at = parse_time(event_time(event))
    return at.isoformat() if at is not None else ""
