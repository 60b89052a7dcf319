"""What is foreseen of gangs that need fewer pods on other hardware."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from multiqueue.api.alternatives import OTHERWISE
from multiqueue.forecast.asked import Asking
from multiqueue.forecast.needs import build_needs
from multiqueue.forecast.replica import Replica
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.workload import Workload
from multiqueue.plugins import Prospect, Runtime
from multiqueue.plugins.testing import make_cluster
from multiqueue.plugins.testing import make_workload as make_view
from tests.builders.engine import T0, flavor_quotas, group, make_queue
from tests.unit.forecast.test_replica import GPU, ask, gang, make_replica, running

H100 = ResourceFlavor(name="h100", node_labels={"accelerator": "h100"})
QUEUE = make_queue("cq", group(flavor_quotas("a100", gpu=8), flavor_quotas("h100", gpu=4)))


def asked(name: str = "w") -> Workload:
    """Eight pods with a GPU each, or four with an H100."""
    workload = gang(name, 8)
    (main,) = workload.pod_sets
    return replace(workload, pod_sets=(replace(main, alternatives=((OTHERWISE, 8), ("h100", 4))),))


def make_mixed() -> Replica:
    replica = make_replica(QUEUE)
    replica.upsert_flavor(H100)
    return replica


def test_it_gets_what_it_needs_on_the_hardware_that_is_free() -> None:
    replica = make_mixed()
    assert ask(replica, asked()).taken == {("a100", GPU): 8}
    replica.upsert_workload(running("a", 1), T0)
    found = ask(replica, asked())
    assert (found.prospect, found.taken) == (Prospect.FITS, {("h100", GPU): 4})


def test_what_was_sent_there_counts_with_the_pods_that_it_needs() -> None:
    replica = make_mixed()
    replica.upsert_workload(running("a", 1), T0)
    replica.assume(asked("sent"), T0)
    assert ask(replica, asked()).prospect is Prospect.WAITS
    assert ask(replica, gang("small", 7)).taken == {("a100", GPU): 7}


def test_it_starts_when_either_hardware_is_free() -> None:
    """Four H100s are there as soon as the first ends, all A100s much later."""
    replica = make_mixed()
    hour = timedelta(hours=1)
    long = Runtime(expected=100 * hour, low=90 * hour, high=110 * hour)
    short = Runtime(expected=hour, low=hour * 0.9, high=hour * 1.1)
    replica.upsert_workload(running("a", 8), T0, runtime=long)
    replica.upsert_workload(replace(asked("b"), reservation=_on_h100()), T0, runtime=short)

    found = ask(replica, asked())

    assert found.prospect is Prospect.WAITS
    assert found.start is not None
    assert found.start.at - T0 < 2 * hour


def _on_h100() -> object:
    reservation = running("b", 4).reservation
    assert reservation is not None
    (assignment,) = reservation.admission.pod_sets
    held = replace(assignment, flavors={GPU: "h100"})
    return replace(reservation, admission=replace(reservation.admission, pod_sets=(held,)))


def test_needs_are_by_flavor() -> None:
    flavors = {"a100": ResourceFlavor(name="a100"), "h100": H100}
    assert build_needs(asked(), QUEUE, flavors) == ((((("a100", GPU), 8),), ((("h100", GPU), 4),)),)


def test_what_a_dispatcher_sees_is_what_is_tried() -> None:
    view = make_view(pods=8, alternatives={"h100": 4})
    queue = make_cluster(flavor="h100").queue
    assert queue is not None
    (pod_set,) = Asking(view, T0).build_for(queue).pod_sets
    assert (pod_set.count, pod_set.alternatives) == (8, ((OTHERWISE, 8), ("h100", 4)))
