"""The hardware and pods that a worker really used, in terms of the manager's quota. Pure.

The names of flavors on both sides are unrelated, so flavors are matched by node labels. If the
flavors of a worker have none of the labels of the reserved one, nothing is corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from multiqueue.api import v1beta2 as api
from multiqueue.api.ran_on import RanOn
from multiqueue.plugins import QueueView

FindFlavor = Callable[[str], api.ResourceFlavor | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitution:
    """One resource of a pod set that runs on other hardware than was reserved.

    Attributes:
        pod_set: The name of the pod set.
        resource: The resource.
        reserved: The manager's flavor that was reserved.
        ran: The flavor that the worker assigned.
        charged: The matching flavor of the manager's ClusterQueue; empty: it has none.
    """

    pod_set: str
    resource: str
    reserved: str
    ran: str
    charged: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fewer:
    """A pod set that runs with fewer pods than were reserved."""

    pod_set: str
    reserved: int
    ran: int

    def __str__(self) -> str:
        return f'pod set "{self.pod_set}" runs with {self.ran} of the {self.reserved} pods reserved'


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The differences from the reservation.

    Attributes:
        substitutions: Resources on other hardware.
        fewer: Pod sets with fewer pods.
    """

    substitutions: tuple[Substitution, ...] = ()
    fewer: tuple[Fewer, ...] = ()

    @property
    def ran_on(self) -> RanOn:
        """What to charge instead of the reservation."""
        return RanOn(
            flavors={(s.pod_set, s.resource): s.charged for s in self.substitutions if s.charged},
            pods={each.pod_set: each.ran for each in self.fewer},
        )

    def __str__(self) -> str:
        return "; ".join([*map(str, self.fewer), *_describe(self.substitutions)])


NOTHING = Account()


def _describe(substitutions: Iterable[Substitution]) -> Iterator[str]:
    """Yield the descriptions; resources with the same substitution share one."""
    alike: dict[Substitution, list[str]] = {}
    for each in substitutions:
        alike.setdefault(replace(each, resource=""), []).append(each.resource)
    for each, resources in alike.items():
        *first, last = resources
        named = f"{', '.join(first)} and {last} of" if first else f"{last} of"
        charged = f'; charged is "{each.charged}"' if each.charged else ""
        yield (
            f'{named} pod set "{each.pod_set}" run{"" if first else "s"} on flavor "{each.ran}" '
            f'there, which is not the reserved "{each.reserved}"{charged}'
        )


def find_fewer(workload: api.Workload, copy: api.Workload) -> tuple[Fewer, ...]:
    """Compare how many pods a worker runs with how many the manager reserved quota for.

    More pods are never charged: quota that was not reserved may belong to another Workload.

    Args:
        workload: The Workload on the manager.
        copy: The admitted copy on the worker.
    """
    reserved, got = workload.status.admission, copy.status.admission
    if reserved is None or got is None:
        return ()
    given = {assignment.name: assignment.count for assignment in got.pod_set_assignments}
    return tuple(
        Fewer(pod_set=assignment.name, reserved=assignment.count, ran=ran)
        for assignment in reserved.pod_set_assignments
        if assignment.count is not None
        and (ran := given.get(assignment.name)) is not None
        and 0 < ran < assignment.count
    )


def find_substitutions(
    workload: api.Workload,
    copy: api.Workload,
    worker: QueueView,
    queue: api.ClusterQueue | None,
    find_flavor: FindFlavor,
) -> tuple[Substitution, ...]:
    """Compare what a worker gave a copy with what the manager reserved.

    Args:
        workload: The Workload on the manager.
        copy: The admitted copy on the worker.
        worker: The worker's queue, with its flavors.
        queue: The manager's ClusterQueue.
        find_flavor: Returns the manager's flavor of a name.
    """
    reserved, got = workload.status.admission, copy.status.admission
    if reserved is None or got is None:
        return ()
    given = {assignment.name: assignment.flavors for assignment in got.pod_set_assignments}
    return tuple(
        Substitution(
            pod_set=assignment.name,
            resource=resource,
            reserved=name,
            ran=ran,
            charged=_find_match(labels, _flavors_of(queue, resource), find_flavor),
        )
        for assignment in reserved.pod_set_assignments
        for resource, name in sorted(assignment.flavors.items())
        if (ran := given.get(assignment.name, {}).get(resource)) is not None
        and (view := worker.flavors.get(ran)) is not None
        and _differs(labels := view.node_labels, find_flavor(name))
    )


def _differs(labels: Mapping[str, str], flavor: api.ResourceFlavor | None) -> bool:
    wanted = flavor.spec.node_labels if flavor is not None else {}
    return any(labels[key] != wanted[key] for key in labels.keys() & wanted.keys())


def _flavors_of(queue: api.ClusterQueue | None, resource: str) -> Iterable[str]:
    for group in queue.spec.resource_groups if queue is not None else ():
        if resource in group.covered_resources:
            yield from (flavor.name for flavor in group.flavors)


def _find_match(labels: Mapping[str, str], flavors: Iterable[str], find_flavor: FindFlavor) -> str:
    """Return the first flavor that has these values for all labels that both have."""
    for name in flavors:
        flavor = find_flavor(name)
        own = flavor.spec.node_labels if flavor is not None else {}
        common = own.keys() & labels.keys()
        if common and all(own[key] == labels[key] for key in common):
            return name
    return ""


def account(
    workload: api.Workload,
    copy: api.Workload,
    worker: QueueView | None,
    queue: api.ClusterQueue | None,
    find_flavor: FindFlavor,
) -> Account:
    """Return the differences between a copy's admission and the manager's reservation.

    The arguments are those of `find_substitutions`; a worker of None is unknown.
    """
    found: tuple[Substitution, ...] = ()
    if worker is not None:
        found = find_substitutions(workload, copy, worker, queue, find_flavor)
    return Account(substitutions=found, fewer=find_fewer(workload, copy))
