"""The story of a Workload in the Trace Event format, which trace viewers open. Pure.

The manager and each worker are a process, each attempt to run is a thread, and each time in a phase
is a complete event. Parity: S-133.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.phase import ENDED, PhaseState

MANAGER = "manager"
MAX_MESSAGE = 512

Json = dict[str, Any]


def build_trace(name: str, spans: Iterable[Mapping[str, Any]], now: datetime) -> Json:
    """Return the content of the file.

    Args:
        name: The Workload, ``namespace/name``.
        spans: The ``spans`` of its story, the oldest first.
        now: When the phase in which it still is ends in the file.
    """
    processes: dict[str, int] = {MANAGER: 1}
    threads: dict[tuple[int, int], None] = {}
    events: list[Json] = []
    attempt, place = 0, MANAGER
    for span in spans:
        if span["stage"] == PhaseState.QUEUED or not attempt:
            attempt += 1
        is_end = span["stage"] in ENDED
        place = place if is_end else span["worker"] or MANAGER
        process = processes.setdefault(place, len(processes) + 1)
        threads[process, attempt] = None
        begin, end = parse_time(span["from"]), parse_time(span["to"])
        if begin is None:
            continue
        shape = {"ph": "X", "dur": max(0, _micros(end or now) - _micros(begin))}
        events.append(
            {
                "name": span["stage"],
                "cat": "workload",
                "ts": _micros(begin),
                **({"ph": "i", "s": "p"} if is_end else shape),
                "pid": process,
                "tid": attempt,
                "args": {"reason": span["code"], "message": span["why"][:MAX_MESSAGE]},
            }
        )
    names = [
        *(_name("process_name", process, 0, told) for told, process in processes.items()),
        *(_name("thread_name", *place, f"attempt {place[1]}") for place in threads),
    ]
    return {
        "traceEvents": [*names, *events],
        "displayTimeUnit": "ms",
        "otherData": {"workload": name},
    }


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def _name(kind: str, process: int, thread: int, told: str) -> Json:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": told}}
