"""What is decided about one reservation is not written to the next."""

from __future__ import annotations

import json
from types import SimpleNamespace

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.disruptions import Stop, StopCause, parse_stops
from multiqueue.api.serde import decode
from multiqueue.api.workload_state import evict
from multiqueue.dispatch.decide.plan import Nominate, SetCheck
from multiqueue.dispatch.execute.manager_writes import LocalWriter, Outdated
from tests.unit.dispatch.builders import T0

NOMINATE = Nominate(clusters=("a",), message="offered")


def make_waiting(*, reserved_at: str) -> api.Workload:
    conditions = [
        {
            "type": "QuotaReserved",
            "status": "True",
            "reason": "r",
            "lastTransitionTime": reserved_at,
        }
    ]
    body = {
        "apiVersion": names.V1BETA2,
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns", "uid": "u"},
        "spec": {"podSets": []},
        "status": {
            "conditions": conditions,
            "admission": {"clusterQueue": "cq", "podSetAssignments": []},
            "admissionChecks": [
                {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": reserved_at}
            ],
        },
    }
    return decode(api.Workload, json.dumps(body).encode())


class Writer:
    """Applies changes to the newest state, as the API server has it."""

    def __init__(self, newest: api.Workload) -> None:
        self.newest = newest
        self.status = newest.status

    async def update_status(self, key, change):
        self.status = change(self.newest)
        return msgspec.structs.replace(self.newest, status=self.status)


async def test_a_nomination_is_written_to_the_reservation_that_it_is_for():
    workload = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    writer = Writer(workload)
    context = SimpleNamespace(writer=writer, clock=SimpleNamespace(now=lambda: T0))
    await LocalWriter(context).nominate(workload, "c", NOMINATE)
    assert writer.status.nominated_cluster_names == ("a",)


async def test_one_for_an_earlier_reservation_is_outdated():
    """The Workload was evicted and got quota again between the decision and the write."""
    writer = Writer(make_waiting(reserved_at="2026-01-01T00:05:00Z"))
    context = SimpleNamespace(writer=writer, clock=SimpleNamespace(now=lambda: T0))
    earlier = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    with pytest.raises(Outdated, match="another reservation"):
        await LocalWriter(context).nominate(earlier, "c", NOMINATE)


async def test_a_cluster_whose_nomination_was_taken_back_meanwhile_does_not_get_the_latch():
    """I-2: somebody else may write the nominations (M-116)."""
    workload = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    nominated = msgspec.structs.replace(workload.status, nominated_cluster_names=("a",))
    context = SimpleNamespace(
        writer=Writer(workload), clock=SimpleNamespace(now=lambda: T0), recorder=None
    )
    decided_on = msgspec.structs.replace(workload, status=nominated)
    step = SetCheck(state=CheckState.READY, message="admitted", cluster="a")
    with pytest.raises(Outdated, match='"a" is not nominated any more'):
        await LocalWriter(context).set_check(decided_on, "c", step, None)


async def test_the_stop_of_a_migration_is_recorded_in_the_write_that_causes_it():
    """P-4, P-99: what was not written did not happen."""
    workload = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    writer = Writer(workload)
    recorder = SimpleNamespace(event=lambda *_: None)
    clock = SimpleNamespace(now=lambda: T0)
    context = SimpleNamespace(writer=writer, clock=clock, recorder=recorder)
    stop = Stop(T0, StopCause.MIGRATION, 1680, "gangs", namespace="team")
    step = SetCheck(state=CheckState.RETRY, message="it moves", stop=stop)
    await LocalWriter(context).set_check(workload, "c", step, None)
    assert writer.status.admission_checks[0].state == CheckState.RETRY
    assert parse_stops(writer.status.conditions) == (stop,)


@pytest.mark.parametrize("state", [CheckState.RETRY, CheckState.PENDING])
async def test_what_was_decided_before_an_eviction_is_not_written_after_it(state):
    """The checks began anew with it, and nobody would reset them once more."""
    workload = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    evicted = evict(workload.status, "ClusterQueueStopped", "it is held", now=T0)
    newest = msgspec.structs.replace(workload, status=evicted)
    context = SimpleNamespace(
        writer=Writer(newest), clock=SimpleNamespace(now=lambda: T0), recorder=None
    )
    step = SetCheck(state=state, message="no worker can hold it")
    with pytest.raises(Outdated, match="evicted meanwhile"):
        await LocalWriter(context).set_check(workload, "c", step, None)


async def test_a_message_about_a_nomination_that_was_changed_meanwhile_stops_what_follows():
    """I-10: copies would be made where the Workload is not nominated any more."""
    workload = make_waiting(reserved_at="2026-01-01T00:00:00Z")
    before = msgspec.structs.replace(workload.status, nominated_cluster_names=("a", "b"))
    after = msgspec.structs.replace(workload.status, nominated_cluster_names=("a",))
    context = SimpleNamespace(
        writer=Writer(msgspec.structs.replace(workload, status=after)),
        clock=SimpleNamespace(now=lambda: T0),
    )
    decided_on = msgspec.structs.replace(workload, status=before)
    with pytest.raises(Outdated, match="nominated elsewhere"):
        await LocalWriter(context).explain(decided_on, "c", "waits on a, b")
