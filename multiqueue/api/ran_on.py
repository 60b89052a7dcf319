"""The annotation with the flavors and pods of a Workload that differ from its admission.

``status.admission`` is immutable while quota is reserved. So the flavors that a worker used instead
are written to this annotation, with the time of the reservation. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiqueue.api.conditions import WorkloadCondition, find_condition
from multiqueue.api.names import RAN_ON
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import is_admitted
from multiqueue.lib.digits import is_number


@dataclass(frozen=True, slots=True, kw_only=True)
class RanOn:
    """What a worker used instead of the reservation; absent entries are as reserved.

    Attributes:
        flavors: Flavor of the ClusterQueue by pod set and resource.
        pods: Number of pods by pod set, if fewer than reserved.
    """

    flavors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.flavors or self.pods)


AS_RESERVED = RanOn()


def format_ran_on(reserved_at: str, ran_on: RanOn) -> str:
    """Return the value of the annotation, such as ``TIME main=4 main:nvidia.com/gpu=h100``.

    Args:
        reserved_at: The time of the quota reservation, as in the condition.
        ran_on: The flavors and pods that the Workload runs with.
    """
    parts = [f"{name}={count}" for name, count in sorted(ran_on.pods.items())]
    for (name, resource), flavor in sorted(ran_on.flavors.items()):
        parts.append(f"{name}:{resource}={flavor}")
    return " ".join((reserved_at, *parts))


def find_ran_on(workload: Workload) -> RanOn:
    """Return what a Workload runs on, from its admission until its quota is released.

    The annotation is written before the latch, which is in the same write as Admitted. Until then
    another worker may still get the Workload and need the whole reservation.
    """
    status = workload.status
    if RAN_ON not in workload.metadata.annotations or not is_admitted(status):
        return AS_RESERVED
    reserved = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
    if reserved is None:
        return AS_RESERVED
    return read_ran_on(workload.metadata.annotations, reserved.last_transition_time)


def read_ran_on(annotations: Mapping[str, str], reserved_at: str) -> RanOn:
    """Return the annotation's value; empty if it belongs to another reservation."""
    text = annotations.get(RAN_ON)
    if text is None:
        return AS_RESERVED
    since, *parts = text.split(" ")
    if since != reserved_at:
        return AS_RESERVED
    flavors: dict[tuple[str, str], str] = {}
    pods: dict[str, int] = {}
    for part in parts:
        where, _, what = part.rpartition("=")
        name, _, resource = where.partition(":")
        if name and resource and what:
            flavors[name, resource] = what
        elif name and is_number(what):
            pods[name] = int(what)
    return RanOn(flavors=flavors, pods=pods)
