"""The lines that say when a Workload starts."""

from __future__ import annotations

from multiqueue.cli.views.start import list_start_lines

PARKED = "it waits for a change that cannot be foreseen: LocalQueue q doesn't exist"


def test_what_stands_beside_it_is_not_told_twice() -> None:
    start = {"reason": PARKED, "caveats": []}
    (alone,) = list_start_lines(start)
    (beside,) = list_start_lines(start, "Misconfigured: LocalQueue q doesn't exist")
    assert alone == f"Start:  not known: {PARKED}"
    assert beside == "Start:  not known: it waits for a change that cannot be foreseen"
