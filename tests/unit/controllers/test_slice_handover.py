"""Who has the quota of a slice by now, and with which words that one ends (E-167)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.api import names
from multiqueue.api.slices import replaced_key
from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.slice_handover import find_successor
from multiqueue.controllers.workload.decide import decide
from multiqueue.controllers.workload.plan import NothingToDo
from tests.builders.workloads import NAMESPACE, admitted, make_workload
from tests.unit.controllers.workload_views import condition_of, make_view, step


def slice_(name: str, replaces: str = "") -> Workload:
    key = f"{NAMESPACE}/{replaces}"
    annotations = {names.WORKLOAD_SLICE_REPLACEMENT_FOR: key} if replaces else {}
    return make_workload(name, annotations=annotations)


def successor_of(name: str, *known: Workload) -> str | None:
    by_key = {workload.metadata.key: workload for workload in known}

    def find_successors(key: str) -> list[Workload]:
        return [workload for workload in known if replaced_key(workload) == key]

    found = find_successor(by_key[f"{NAMESPACE}/{name}"], by_key.get, find_successors)
    return found.metadata.name if found is not None else None


def test_a_slice_that_another_one_took_over_from_ends() -> None:
    old, new = admitted(slice_("old")), admitted(slice_("new", "old"))
    assert successor_of("old", old, new) == "new"
    view = step(make_view(old, successor=new))
    found = condition_of(view, "Finished")
    assert found is not None
    status, reason, message = found
    assert (status, reason) == ("True", "WorkloadSliceReplaced")
    assert message.startswith(f"Replaced to accommodate a workload (UID: {new.metadata.uid}, ")
    assert decide(replace(view, successor=None)) == NothingToDo()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (admitted(slice_("old")), slice_("new", "old")),
        (slice_("old"), admitted(slice_("new", "old"))),
        (admitted(slice_("old"), on="other"), admitted(slice_("new", "old"))),
        (admitted(slice_("old", "new")), admitted(slice_("new", "old"))),
    ],
    ids=["waits", "has no quota to hand over", "of another queue", "replace each other"],
)
def test_who_took_nothing_over_ends_nobody(old: Workload, new: Workload) -> None:
    assert successor_of("old", old, new) is None
