"""Concurrent admission in any order of events: a job never runs without quota, and settles (E-171).

The engine, the job and the controllers of Workloads are played in a few lines each; the rules that
keep parent and variants together are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.serde import decode, encode
from multiqueue.api.v1beta2 import Admission, PodSetAssignment, Workload, WorkloadStatus
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.api.variants import is_parent, variant_flavor
from multiqueue.api.workload_state import (
    complete_eviction,
    deactivate,
    evict,
    has_quota,
    is_admitted,
    is_evicted,
    preempt,
    reserve_quota,
    sync_admitted,
)
from multiqueue.controllers.variants.compose import compose_variant
from multiqueue.controllers.variants.decide import decide_family
from multiqueue.controllers.variants.plan import (
    CreateVariant,
    DeleteVariant,
    FamilyStep,
    PatchObject,
    PatchStatus,
)
from multiqueue.controllers.variants.view import RETAIN, FamilyView
from tests.builders.workloads import T0, make_workload

ALL = ("best", "good", "poor")
MODES = ("TryPreferredFlavors", RETAIN)


class Family:
    """A job's Workload with its variants, and everybody who changes them."""

    def __init__(self, mode: str, last: str, free: set[str]) -> None:
        self.mode, self.last, self.now, self.free = mode, last, T0, free
        self.flavors = list(ALL)
        self.parent = make_workload("job-train-abcde", owner_uid="u")
        self.variants: dict[str, Workload] = {}
        self.made = 0

    # ------------------------------------------------------------ the controller
    def view(self) -> FamilyView:
        bare = FamilyView(parent=self.parent, flavors=tuple(self.flavors), now=self.now)
        ordered = sorted(self.variants.values(), key=lambda v: bare.rank(variant_flavor(v)))
        return FamilyView(
            parent=self.parent,
            variants=tuple(ordered),
            flavors=tuple(self.flavors),
            mode=self.mode,
            last_acceptable=self.last,
            now=self.now,
        )

    def decide(self) -> bool:
        """Carry out the next steps; whether there were any."""
        steps = decide_family(self.view()).steps
        for step in steps:
            self._carry_out(step)
            self.check()
        return bool(steps)

    def _carry_out(self, step: FamilyStep) -> None:
        match step:
            case CreateVariant():
                body = compose_variant(self.parent, step.flavor, order=step.order)
                self.made += 1
                body["metadata"]["uid"] = f"variant-{self.made}"
                self.variants[step.flavor] = decode(Workload, body)
            case DeleteVariant():
                self.delete(variant_flavor(step.variant))
            case PatchStatus():
                self._put(step.workload, step.change(self._newest(step.workload)))
            case PatchObject():
                self._replace(merge(self._newest(step.workload), step.patch))
            case _:
                del self.variants[variant_flavor(step.variant)]

    def _newest(self, workload: Workload) -> Workload:
        is_own = workload.metadata.uid == self.parent.metadata.uid
        return self.parent if is_own else self.variants[variant_flavor(workload)]

    def _replace(self, workload: Workload) -> None:
        if workload.metadata.uid == self.parent.metadata.uid:
            self.parent = workload
        else:
            self.variants[variant_flavor(workload)] = workload

    def _put(self, workload: Workload, status: WorkloadStatus) -> None:
        self._replace(msgspec.structs.replace(self._newest(workload), status=status))

    # ------------------------------------------------------------ everybody else
    def admit(self, flavor: str) -> None:
        """What the engine does with a variant (E-67, E-82)."""
        variant = self.variants.get(flavor)
        if variant is None or flavor not in self.free or flavor not in self.flavors:
            return
        waits = variant.spec.active and not has_quota(variant.status)
        if not waits or variant.metadata.deletion_timestamp or not is_parent(self.parent):
            return
        rank = self.view().rank
        others = [v for f, v in self.variants.items() if f != flavor and is_admitted(v.status)]
        if any(rank(variant_flavor(other)) < rank(flavor) for other in others):
            return
        if others and self.last and rank(flavor) > rank(self.last):
            return
        for other in others:
            if not is_evicted(other.status):
                self._put(other, evict(other.status, Reason.FLAVOR_MIGRATION, "m", now=self.now))
        if not others:
            used = PodSetAssignment(name="main", flavors={"cpu": flavor}, count=1)
            admission = Admission(cluster_queue="cq", pod_set_assignments=(used,))
            status = reserve_quota(variant.status, admission, now=self.now)
            self._put(variant, sync_admitted(status, now=self.now))

    def preempt(self, flavor: str) -> None:
        variant = self.variants.get(flavor)
        if variant is not None and has_quota(variant.status) and not is_evicted(variant.status):
            self._put(variant, preempt(variant.status, "InClusterQueue", "m", now=self.now))

    def obey_active(self, _: str = "") -> None:
        """What the controller of Workloads does with inactive ones."""
        for workload in (self.parent, *self.variants.values()):
            if not workload.spec.active:
                self._put(workload, deactivate(workload.status, now=self.now))

    def stop_job(self, _: str = "") -> None:
        """What the job framework does after an eviction; it takes a while."""
        self._put(self.parent, complete_eviction(self.parent.status, now=self.now))

    def time_out(self, _: str) -> None:
        if has_quota(self.parent.status) and not is_evicted(self.parent.status):
            reason = Reason.PODS_READY_TIMEOUT
            self._put(self.parent, evict(self.parent.status, reason, "m", now=self.now))

    def toggle_job(self, _: str) -> None:
        self._replace(merge(self.parent, {"spec": {"active": not self.parent.spec.active}}))

    def toggle_flavor(self, flavor: str) -> None:
        if flavor in self.flavors and len(self.flavors) > 1 and flavor != self.last:
            self.flavors.remove(flavor)
        elif flavor not in self.flavors:
            self.flavors.append(flavor)

    def toggle_quota(self, flavor: str) -> None:
        self.free ^= {flavor}

    def delete(self, flavor: str) -> None:
        if flavor in self.variants:
            gone = {"metadata": {"deletionTimestamp": format_time(self.now)}}
            self._replace(merge(self.variants[flavor], gone))

    # ------------------------------------------------------------ what must hold
    def check(self) -> None:
        source = self.view().source
        if has_quota(self.parent.status):
            assert source is not None, "the job runs with the quota of nobody"
            assert has_quota(source.status), "the quota went before the job stopped"

    def settle(self) -> None:
        for _ in range(100):
            before = (self.parent, dict(self.variants))
            for flavor in self.flavors:
                self.admit(flavor)
            self.obey_active()
            self.stop_job()
            while self.decide():
                self.now += timedelta(seconds=1)
            if before == (self.parent, self.variants):
                return
        raise AssertionError("it does not settle")


def merge(workload: Workload, patch: dict[str, Any]) -> Workload:
    def apply(target: Any, change: Any) -> Any:
        if not isinstance(change, dict):
            return change
        merged = dict(target) if isinstance(target, dict) else {}
        for key, value in change.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = apply(merged.get(key), value)
        return merged

    return decode(Workload, apply(encode(workload), patch))


EVENTS: tuple[Callable[[Family, str], None], ...] = (
    Family.admit,
    Family.preempt,
    Family.obey_active,
    Family.stop_job,
    Family.time_out,
    Family.toggle_job,
    Family.toggle_flavor,
    Family.toggle_quota,
    Family.delete,
    *(lambda family, _: (family.decide(), None)[1] for _ in range(4)),
    lambda family, _: family.settle(),
)
histories = st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(ALL)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    histories,
    st.sampled_from(MODES),
    st.sampled_from(("", "", "best", "good")),
    st.sets(st.sampled_from(ALL)),
)
def test_a_job_runs_with_quota_only_and_settles(
    history: list[tuple[Callable[[Family, str], None], str]], mode: str, last: str, free: set[str]
) -> None:
    family = Family(mode, last if mode != RETAIN else "", free)
    family.settle()
    for event, flavor in history:
        event(family, flavor)
        family.now += timedelta(seconds=1)
        family.check()
    family.free = set(ALL)
    family.settle()
    holders = [f for f, v in family.variants.items() if has_quota(v.status)]
    assert is_admitted(family.parent.status) == family.parent.spec.active
    assert len(holders) == family.parent.spec.active
    if holders and mode != RETAIN and not family.last:
        assert holders == family.flavors[:1]
    assert set(family.variants) == set(family.flavors)
    assert is_parent(family.parent)
    assert names.CONCURRENT_ADMISSION_PARENT not in {
        label for v in family.variants.values() for label in v.metadata.labels
    }
