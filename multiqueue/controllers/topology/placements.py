"""Which Workloads have pods placed on which nodes."""

from __future__ import annotations

from collections.abc import Iterable

from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.model.topology_encoding import decode_topology

NOWHERE: frozenset[str] = frozenset()


class PlacementIndex:
    """Workloads by the hostnames in their topology assignments."""

    def __init__(self) -> None:
        self._hosts: dict[str, frozenset[str]] = {}
        self._workloads: dict[str, set[str]] = {}

    def set(self, key: str, hosts: frozenset[str]) -> frozenset[str]:
        """Take over the hosts of a Workload; return the hosts that were added or removed."""
        old = self._hosts.pop(key, NOWHERE)
        if hosts:
            self._hosts[key] = hosts
        for host in old - hosts:
            members = self._workloads[host]
            members.discard(key)
            if not members:
                del self._workloads[host]
        for host in hosts - old:
            self._workloads.setdefault(host, set()).add(key)
        return old ^ hosts

    def on(self, host: str) -> Iterable[str]:
        """Return the keys of the Workloads placed on a host."""
        return self._workloads.get(host, ())


def find_hosts(workload: Workload | None) -> frozenset[str]:
    """Return the hostnames of a Workload's assignment in this cluster; none for wider domains."""
    if workload is None or workload.status.cluster_name or is_finished(workload.status):
        return NOWHERE
    admission = workload.status.admission
    if admission is None or not has_quota(workload.status):
        return NOWHERE
    return frozenset(
        host
        for assignment in admission.pod_set_assignments
        if assignment.topology_assignment is not None
        for host in decode_topology(assignment.topology_assignment).nodes()
    )


def pod_sets_on(workload: Workload, host: str) -> tuple[str, ...]:
    """Return the names of the pod sets that have pods on a host."""
    admission = workload.status.admission
    return tuple(
        assignment.name
        for assignment in (admission.pod_set_assignments if admission else ())
        if assignment.topology_assignment is not None
        and host in decode_topology(assignment.topology_assignment).nodes()
    )
