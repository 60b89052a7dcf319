"""A story as a file that trace viewers open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from multiqueue.views.trace_events import MAX_MESSAGE, build_trace

Json = dict[str, Any]
NOW = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)
NOON = 1_767_614_400_000_000


def span(stage: str, minutes: tuple[int, int | None], worker: str = "", why: str = "") -> Json:
    begin, end = (None if m is None else f"2026-01-05T12:{m:02}:00Z" for m in minutes)
    return {
        "stage": stage,
        "worker": worker or None,
        "from": begin,
        "to": end,
        "code": "",
        "why": why,
    }


MOVED = [
    span("Queued", (0, 2), why="x" * 9000),
    span("Dispatched", (2, 3)),
    span("Running", (3, 10), "worker-a"),
    span("Moving", (10, 11)),
    span("Queued", (11, 12)),
    span("Running", (12, 20), "worker-b"),
    span("Succeeded", (20, None), "worker-b"),
]
"""A job that was evicted from one worker, and ended on another."""


def read(trace: Json) -> tuple[list[tuple[Any, ...]], dict[tuple[int, int], str]]:
    """(process, thread, phase, begin and length in minutes) of all events, and the names."""
    names = {
        (e["pid"], e["tid"] if e["name"] == "thread_name" else 0): e["args"]["name"]
        for e in trace["traceEvents"]
        if e["ph"] == "M"
    }
    minute = 60_000_000
    events = [
        (
            names[e["pid"], 0],
            names[e["pid"], e["tid"]],
            e["name"],
            (e["ts"] - NOON) / minute,
            e["dur"] / minute if e["ph"] == "X" else None,
        )
        for e in trace["traceEvents"]
        if e["ph"] != "M"
    ]
    return events, names


def test_places_are_processes_and_attempts_are_threads() -> None:
    events, names = read(build_trace("team/wl", MOVED, NOW))
    assert events == [
        ("manager", "attempt 1", "Queued", 0, 2),
        ("manager", "attempt 1", "Dispatched", 2, 1),
        ("worker-a", "attempt 1", "Running", 3, 7),
        ("manager", "attempt 1", "Moving", 10, 1),
        ("manager", "attempt 2", "Queued", 11, 1),
        ("worker-b", "attempt 2", "Running", 12, 8),
        ("worker-b", "attempt 2", "Succeeded", 20, None),
    ]
    assert set(names.values()) == {"manager", "worker-a", "worker-b", "attempt 1", "attempt 2"}


def test_the_phase_of_now_ends_now_and_the_end_is_an_instant() -> None:
    trace = build_trace("team/wl", [*MOVED[:3], span("Queued", (20, None))], NOW)
    assert read(trace)[0][-1] == ("manager", "attempt 2", "Queued", 20, 10)
    end = build_trace("team/wl", MOVED, NOW)["traceEvents"][-1]
    assert (end["ph"], end["s"]) == ("i", "p")


def test_messages_are_cut() -> None:
    events = build_trace("team/wl", MOVED, NOW)["traceEvents"]
    [queued, *_] = [each for each in events if each["ph"] == "X"]
    assert queued["args"] == {"reason": "", "message": "x" * MAX_MESSAGE}
