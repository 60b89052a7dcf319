"""What somebody else's code raised, told in a line with the place in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from multiqueue.plugins import WorkloadView, scarce_resource
from multiqueue.plugins.raised import MOST_TEXT, describe_error


def catch(work: Callable[[], object]) -> BaseException:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - all of it is told
        return error
    raise AssertionError("nothing was raised")


def describe(work: Callable[[], object], *, below: int = 0) -> tuple[str, str]:
    """Return what is told, and the place that should be."""
    line = work.__code__.co_firstlineno + below
    return describe_error(catch(work)), f" (test_raised.py, line {line})"


def test_it_says_where_in_the_code_that_was_called():
    def work() -> None:
        raise KeyError("speeds")

    told, place = describe(work, below=1)
    assert told == f"KeyError: 'speeds'{place}"


def test_what_that_code_called_is_not_the_place():
    told, place = describe(lambda: json.loads("{"))
    assert told.startswith("JSONDecodeError: ")
    assert told.endswith(place)


def test_nor_is_this_program():
    workload = WorkloadView(key="a/b", created_at=datetime(2026, 1, 1, tzinfo=UTC), pod_sets=None)
    told, place = describe(lambda: scarce_resource(workload))
    assert told.endswith(place)


def test_what_was_never_raised_has_no_place():
    assert describe_error(KeyError("a")) == "KeyError: 'a'"
    assert describe_error(SystemExit()) == "SystemExit"


def test_a_long_text_leaves_room_for_the_place():
    def work() -> None:
        raise ValueError("x" * 5000)

    told, place = describe(work, below=1)
    assert told == f"ValueError: {'x' * MOST_TEXT}{place}"
