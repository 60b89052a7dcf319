"""What happened to a Workload between two states."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.config import build_configuration
from multiqueue.api.v1beta2 import (
    AdmissionCheck,
    AdmissionCheckSpec,
    AdmissionCheckState,
    LocalQueue,
    LocalQueueSpec,
    Workload,
)
from multiqueue.api.v1beta2.meta import ObjectMeta, OwnerReference
from multiqueue.api.workload_readiness import ReadinessRules, give_up_waiting, sync_pods_ready
from multiqueue.api.workload_state import (
    complete_eviction,
    finish,
    preempt,
    set_pending,
    sync_admitted,
    target_deactivation,
)
from multiqueue.controllers.transitions import (
    TransitionKind,
    TransitionRecorder,
    find_transitions,
    queued_at,
    split_eviction,
)
from multiqueue.jobs.context import ManagerContext
from multiqueue.observability.metrics import ManagerMetrics
from tests.builders.workloads import (
    NAMESPACE,
    T0,
    admitted,
    evicted,
    make_workload,
    minutes,
    reserved,
    with_status,
)

CHECKS = {
    name: AdmissionCheck(spec=AdmissionCheckSpec(controller_name=controller))
    for name, controller in (("nodes", "a.com/nodes"), ("mk", names.MULTIKUEUE_CONTROLLER))
}


def make_context(recorder: Any, metrics: ManagerMetrics, /, **config: Any) -> ManagerContext:
    """What a recorder looks at, with a LocalQueue of the team "blue"."""
    meta = ObjectMeta(name="lq", namespace=NAMESPACE, labels={"team": "blue"})
    queue = LocalQueue(metadata=meta, spec=LocalQueueSpec(cluster_queue="cq"))
    store = {queue.metadata.key: queue}
    context: Any = SimpleNamespace(
        recorder=recorder,
        metrics=metrics,
        config=build_configuration(config),
        informers=SimpleNamespace(
            local_queues=SimpleNamespace(store=store),
            admission_checks=SimpleNamespace(store=CHECKS),
        ),
    )
    return cast("ManagerContext", context)


def steps(old: Workload, new: Workload) -> list[TransitionKind]:
    return [transition.step for transition in find_transitions(old, new)]


def test_an_admission_in_one_write_is_two_steps() -> None:
    workload = make_workload()
    assert steps(workload, admitted(workload)) == [
        TransitionKind.QUOTA_RESERVED,
        TransitionKind.ADMITTED,
    ]
    assert steps(reserved(workload), admitted(workload)) == [TransitionKind.ADMITTED]


def test_a_preemption_is_an_eviction() -> None:
    running = admitted(make_workload())
    preempted = with_status(
        running, preempt(running.status, Reason.IN_CLUSTER_QUEUE, "for another", now=T0)
    )
    assert steps(running, preempted) == [TransitionKind.EVICTED]


def test_an_eviction_for_another_reason_is_told_again() -> None:
    first = evicted(admitted(make_workload()), Reason.PREEMPTED)
    assert steps(first, evicted(first, Reason.DEACTIVATED)) == [TransitionKind.EVICTED]


def test_a_new_reason_to_wait_is_told_but_not_new_figures() -> None:
    workload = make_workload()
    waiting = with_status(workload, set_pending(workload.status, reason="A", message="1", now=T0))
    assert steps(workload, waiting) == [TransitionKind.PENDING]
    more = with_status(waiting, set_pending(waiting.status, reason="A", message="2", now=T0))
    assert steps(waiting, more) == []


def test_the_end_of_an_eviction_is_a_wait_of_which_the_eviction_told() -> None:
    leaving = evicted(admitted(make_workload()))
    left = with_status(leaving, complete_eviction(leaving.status, now=minutes(1)))
    assert steps(leaving, left) == []
    waiting = with_status(left, set_pending(left.status, reason="A", message="1", now=T0))
    assert steps(left, waiting) == [TransitionKind.PENDING]
    assert queued_at(left) == minutes(1)
    assert queued_at(make_workload()) == T0


def test_what_is_of_no_interest_is_not_told() -> None:
    running = admitted(make_workload())
    asked = with_status(running, target_deactivation(running.status, "X", "", now=T0))
    assert steps(running, asked) == []


def test_the_end_is_told_once() -> None:
    running = admitted(make_workload())
    ended = with_status(running, finish(running.status, "Succeeded", "done", now=T0))
    assert steps(running, ended) == [TransitionKind.FINISHED]
    assert steps(ended, ended) == []


def test_the_cause_of_a_deactivation_is_told_apart() -> None:
    assert split_eviction("DeactivatedDueToAdmissionCheck") == ("Deactivated", "AdmissionCheck")
    assert split_eviction("Preempted") == ("Preempted", "")


@pytest.mark.parametrize("reason", [Reason.EXCEEDS_MAX_QUOTA, Reason.WAITING_FOR_QUOTA])
def test_why_a_workload_waits_is_said_once_on_the_workload(reason: Reason) -> None:
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="u", controller=True)
    workload = make_workload()
    metadata = msgspec.structs.replace(workload.metadata, owner_references=(job,))
    workload = msgspec.structs.replace(workload, metadata=metadata)
    waiting = with_status(
        workload, set_pending(workload.status, reason=reason, message="too big", now=T0)
    )
    events: list[tuple[str, ...]] = []

    def event(regarding: dict[str, str], *what: str, hold_seconds: float = 0) -> None:
        assert not hold_seconds
        events.append((regarding["kind"], *what))

    recorder = TransitionRecorder(make_context(SimpleNamespace(event=event), ManagerMetrics()))
    recorder.on_workload(workload, waiting)
    recorder.on_workload(waiting, waiting)
    assert events == [("Workload", "Warning", reason, "too big")]


# ---------------------------------------------------------------- events and metrics

RULES = ReadinessRules(timeout=timedelta(minutes=5), recovery_timeout=timedelta(minutes=5))


def test_a_job_is_told_what_its_checks_wait_for() -> None:
    """Not about MultiKueue, whose Events are on the job already."""
    waiting = reserved(make_workload(owner_uid="u"))

    def saying(message: str, state: str = "Pending") -> Workload:
        checks = (
            AdmissionCheckState(name="mk", state="Pending", message="dispatching"),
            AdmissionCheckState(name="nodes", state=state, message=message),
        )
        status = msgspec.structs.replace(waiting.status, admission_checks=checks)
        return with_status(waiting, status)

    told = ("UpdatedAdmissionCheck", "nodes: in 2 min")
    asked = saying("")
    assert Recorded(asked, saying("in 2 min"), saying("in 2 min")).events == [told]
    assert Recorded(asked, saying("here", "Ready")).events == []
    deactivated = set_pending(asked.status, reason=Reason.DEACTIVATED, message="off", now=T0)
    assert Recorded(make_workload(), with_status(asked, deactivated)).events == []
    left = saying("in 2 min")
    assert Recorded(left, evicted(left, at=minutes(1))).events[1:] == []


def test_gates_are_named_and_their_end_is_told() -> None:
    """E-85."""
    workload = make_workload(annotations={names.ADMISSION_GATED_BY: "a.com/x"})
    said = set_pending(workload.status, reason=Reason.ADMISSION_GATED, message="Gated", now=T0)
    gated = with_status(workload, said)
    named = ("AdmissionGated", "Workload admission is gated by: a.com/x")
    cleared = ("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    assert Recorded(workload, gated).events == [named]
    assert Recorded(gated, reserved(with_status(make_workload(), said))).events == [cleared]
    stopped = set_pending(said, reason=Reason.SUSPENDED, message="the queue is stopped", now=T0)
    assert cleared not in Recorded(gated, with_status(workload, stopped)).events


class Recorded:
    """A recorder that was told of these states of a Workload, one after the other.

    Args:
        config: Sections of the Configuration that are not as always.
    """

    def __init__(self, *states: Workload, **config: Any) -> None:
        self.events: list[tuple[str, str]] = []
        self.metrics = ManagerMetrics()
        self.held: dict[str, str] = {}
        transitions = TransitionRecorder(make_context(self, self.metrics, **config))
        self.tell = transitions.on_workload
        for old, new in pairwise(states):
            self.tell(old, new)

    def event(
        self, _ref: object, _kind: str, reason: str, message: str, *, hold_seconds: float = 0
    ) -> None:
        if hold_seconds:
            self.held[reason] = message
        else:
            self.events.append((reason, message))

    def take_back(self, _ref: object, reason: str) -> str | None:
        return self.held.pop(reason, None)

    def write_held(self) -> None:
        """Time passes."""
        self.events.extend(self.held.items())
        self.held.clear()

    def value(self, name: str, **labels: str) -> float | None:
        common = {"cluster_queue": "cq", "replica_role": "standalone"}
        return self.metrics.registry.get_sample_value(name, {**common, **labels})

    def own(self, name: str, **labels: str) -> float | None:
        """The value for the LocalQueue; None where it has no such metric."""
        common = {"name": "lq", "namespace": NAMESPACE, "replica_role": "standalone"}
        return self.metrics.registry.get_sample_value(
            f"kueue_local_queue_{name}", {**common, **labels}
        )


def ready(workload: Workload, at: float, *, value: bool = True) -> Workload:
    status = sync_pods_ready(workload.status, ready=value, now=minutes(at))
    return with_status(workload, status)


def late(workload: Workload, at: float) -> Workload:
    status = give_up_waiting(workload.status, "ns/wl", RULES, now=minutes(at))
    return with_status(workload, status)


def test_quota_and_admission_in_one_write_are_one_event() -> None:
    pending = make_workload()
    told = Recorded(pending, admitted(pending, at=minutes(1)))
    words = (
        "Admitted by ClusterQueue cq, wait time since reservation was 0s; "
        "Quota reserved in ClusterQueue cq, wait time since queued was 60s"
    )
    assert told.events == [("Admitted", words)]
    for name in ("quota_reserved_workloads_total", "admitted_workloads_total"):
        assert told.value(f"kueue_{name}", priority_class="") == 1


QUOTA = "Quota reserved in ClusterQueue cq, wait time since queued was 60s"


def test_an_admission_soon_after_the_quota_is_one_event_with_it() -> None:
    pending = make_workload()
    waiting = reserved(pending, at=minutes(1))
    status = sync_admitted(waiting.status, now=minutes(1))
    told = Recorded(pending, waiting, with_status(waiting, status))
    words = f"Admitted by ClusterQueue cq, wait time since reservation was 0s; {QUOTA}"
    assert told.events == [("Admitted", words)]
    assert not told.held


def test_an_admission_that_came_later_is_an_event_of_its_own() -> None:
    pending = make_workload()
    waiting = reserved(pending, at=minutes(1))
    status = sync_admitted(waiting.status, now=minutes(3))
    told = Recorded(pending, waiting)
    told.write_held()
    told.tell(waiting, with_status(waiting, status))
    assert told.events == [
        ("QuotaReserved", QUOTA),
        ("Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 120s"),
    ]


def test_the_first_time_that_pods_are_ready_is_measured() -> None:
    running = admitted(make_workload(), at=minutes(1))
    started = ready(running, 3)
    lost = ready(started, 4, value=False)
    told = Recorded(running, started, lost, ready(lost, 9))
    for name, seconds in (("ready", 180), ("admitted_until_ready", 120)):
        metric = f"kueue_{name}_wait_time_seconds"
        assert told.value(f"{metric}_sum", priority_class="") == seconds
        assert told.value(f"{metric}_count", priority_class="") == 1


def test_an_eviction_is_counted_with_its_cause_and_as_a_first_one() -> None:
    running = admitted(make_workload())
    first = late(running, 5)
    left = with_status(first, complete_eviction(first.status, now=minutes(6)))
    back = admitted(left, at=minutes(10))
    told = Recorded(running, first, left, back, late(back, 15))
    labels = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart"}
    assert told.value("kueue_evicted_workloads_total", priority_class="", **labels) == 2
    assert told.value("kueue_evicted_workloads_once_total", priority_class="", **labels) == 1
    assert ("EvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout ns/wl") in told.events


def test_the_way_of_a_workload_is_measured_by_stages() -> None:
    pending = make_workload()
    waiting = reserved(pending, at=minutes(1))
    runs = with_status(waiting, sync_admitted(waiting.status, now=minutes(3)))
    late_runs = late(runs, 5)
    left = with_status(late_runs, complete_eviction(late_runs.status, now=minutes(6)))
    again = admitted(left, at=minutes(10))
    done = with_status(again, finish(again.status, Reason.SUCCEEDED, "done", now=minutes(14)))
    told = Recorded(pending, waiting, runs, late_runs, left, again, done)
    checks = "kueue_admission_checks_wait_time_seconds"
    assert told.value(f"{checks}_sum", priority_class="") == 120
    assert told.value(f"{checks}_count", priority_class="") == 2
    assert told.value("kueue_execution_time_seconds_sum", priority_class="") == 240
    released = {"reason": "PodsReadyTimeout"}
    assert told.value("kueue_workload_eviction_latency_seconds_sum", **released) == 60


def test_the_time_from_ready_pods_to_the_eviction_is_measured() -> None:
    running = ready(admitted(make_workload()), 2)
    told = Recorded(running, evicted(running, at=minutes(5)))
    labels = {"reason": "Preempted", "underlying_cause": ""}
    assert told.value("kueue_pods_ready_to_evicted_time_seconds_sum", **labels) == 180


# ---------------------------------------------------------------- metrics of LocalQueues


def of_team(name: str) -> dict[str, Any]:
    selector = {"matchLabels": {"team": name}}
    return {"metrics": {"localQueueMetrics": {"enable": True, "localQueueSelector": selector}}}


def test_a_local_queue_counts_what_its_cluster_queue_counts() -> None:
    pending = make_workload()
    runs = ready(admitted(pending, at=minutes(1)), 3)
    preempted = with_status(
        runs, preempt(runs.status, Reason.IN_CLUSTER_QUEUE, "for another", now=minutes(4))
    )
    done = with_status(runs, finish(runs.status, Reason.SUCCEEDED, "done", now=minutes(5)))
    told = Recorded(pending, admitted(pending, at=minutes(1)), runs, preempted)
    told_end = Recorded(runs, done)

    for name in ("quota_reserved_workloads_total", "admitted_workloads_total"):
        assert told.own(name, priority_class="") == 1
    for name, seconds in (
        ("quota_reserved_wait_time_seconds", 60),
        ("admission_wait_time_seconds", 60),
        ("ready_wait_time_seconds", 180),
        ("admitted_until_ready_wait_time_seconds", 120),
        ("admission_checks_wait_time_seconds", 0),
    ):
        assert told.own(f"{name}_sum", priority_class="") == seconds
    labels = {"reason": "Preempted", "underlying_cause": "", "priority_class": ""}
    assert told.own("evicted_workloads_total", **labels) == 1
    assert told_end.own("finished_workloads_total", priority_class="") == 1
    assert told_end.own("execution_time_seconds_sum", priority_class="") == 240


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (of_team("blue"), 1),
        (of_team("red"), None),
        ({"metrics": {"localQueueMetrics": {"enable": False}}}, None),
        ({"featureGates": {"LocalQueueMetrics": False}}, None),
    ],
)
def test_the_configuration_says_which_local_queues_count(
    config: dict[str, Any], count: float | None
) -> None:
    pending = make_workload()
    told = Recorded(pending, admitted(pending), **config)

    assert told.own("admitted_workloads_total", priority_class="") == count
    assert told.value("kueue_admitted_workloads_total", priority_class="") == 1


def test_a_parent_and_its_variant_are_counted_once() -> None:
    label = {names.CONCURRENT_ADMISSION_PARENT: "true"}
    parent = make_workload("job", labels=label)
    variant = make_workload("job-variant-spot")
    owner = OwnerReference(api_version=names.V1BETA2, kind="Workload", name="job", uid="u")
    metadata = msgspec.structs.replace(variant.metadata, owner_references=(owner,))
    variant = msgspec.structs.replace(variant, metadata=metadata)

    def life(workload: Workload) -> list[Workload]:
        running = admitted(workload)
        leaving = evicted(running, Reason.FLAVOR_MIGRATION)
        ended = with_status(leaving, finish(leaving.status, "Succeeded", "done", now=T0))
        return [workload, running, leaving, ended]

    counters = ("quota_reserved", "admitted", "finished")
    for workload, want in ((variant, [1, 1, None]), (parent, [None, None, 1])):
        seen = Recorded(*life(workload))
        totals = [f"kueue_{name}_workloads_total" for name in counters]
        assert [seen.value(total, priority_class="") for total in totals] == want
        told = [reason for reason, _ in seen.events]
        assert told == ["Admitted", "EvictedDueToFlavorMigration"]
