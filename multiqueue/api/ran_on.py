"""The annotation that says what a Workload runs on, where that is not what its admission says.

``status.admission`` is immutable while quota is reserved; so what a worker ran it on instead stands
here, beside the reservation that it is about. Pure.
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
    """What a worker took instead of what was reserved; what is absent is as reserved.

    Attributes:
        flavors: Flavor of the ClusterQueue by pod set and resource.
        pods: Number of pods by pod set: fewer than reserved.
    """

    flavors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pods: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.flavors or self.pods)


AS_RESERVED = RanOn()


def format_ran_on(reserved_at: str, ran_on: RanOn) -> str:
    """Return the value of the annotation, such as ``TIME main=4 main:nvidia.com/gpu=h100``.

    Args:
        reserved_at: When quota was reserved, as the condition has it.
        ran_on: What it runs on.
    """
    parts = [f"{name}={count}" for name, count in sorted(ran_on.pods.items())]
    for (name, resource), flavor in sorted(ran_on.flavors.items()):
        parts.append(f"{name}:{resource}={flavor}")
    return " ".join((reserved_at, *parts))


def find_ran_on(workload: Workload) -> RanOn:
    """Return what a Workload runs on, from its admission until its quota goes.

    The annotation is written first. Until the latch is, in the same write as Admitted, another
    worker may get the Workload yet, and need all that was reserved.
    """
    status = workload.status
    if RAN_ON not in workload.metadata.annotations or not is_admitted(status):
        return AS_RESERVED
    reserved = find_condition(status.conditions, WorkloadCondition.QUOTA_RESERVED)
    if reserved is None:
        return AS_RESERVED
    return read_ran_on(workload.metadata.annotations, reserved.last_transition_time)


def read_ran_on(annotations: Mapping[str, str], reserved_at: str) -> RanOn:
    """Return what it runs on; nothing where the annotation is about another reservation."""
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
