"""A parent, its variants and their ClusterQueue: the input of a decision about them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from multiqueue.api.v1beta2 import ClusterQueue, Workload
from multiqueue.api.variants import variant_flavor
from multiqueue.api.workload_state import has_quota, is_admitted, is_evicted

RETAIN = "RetainFirstAdmission"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyView:
    """What is known about a job's Workload and its variants.

    Attributes:
        parent: The Workload of the job.
        variants: Its variants, the most preferred flavor first.
        flavors: The flavors of the queue, in order; empty if its Workloads have no variants, None
            if the queue is not known.
        mode: When a running Workload moves.
        last_acceptable: The last flavor to which it moves; "" for no limit.
        waits_for_pods: Whether the Configuration waits for ready pods.
        now: The time of the decision.
    """

    parent: Workload
    variants: tuple[Workload, ...] = ()
    flavors: tuple[str, ...] | None = None
    mode: str = ""
    last_acceptable: str = ""
    waits_for_pods: bool = False
    now: datetime

    def rank(self, flavor: str) -> int:
        """Return the place of a flavor in the queue; unknown ones come last."""
        flavors = self.flavors or ()
        return flavors.index(flavor) if flavor in flavors else len(flavors)

    @property
    def source(self) -> Workload | None:
        """The variant whose quota the parent shows: the one on the flavor of its admission."""
        admission = self.parent.status.admission
        if admission is None or not has_quota(self.parent.status):
            return None
        used = {f for each in admission.pod_set_assignments for f in each.flavors.values()}
        return next((v for v in self.variants if variant_flavor(v) in used), None)

    @property
    def admitted(self) -> Workload | None:
        """The admitted variant on the most preferred flavor, even if it has to stop."""
        return next((v for v in self.variants if is_admitted(v.status)), None)

    @property
    def startable(self) -> Workload | None:
        """The best variant with which the job may run."""
        return next((v for v in self.variants if may_run(v)), None)


def may_run(variant: Workload) -> bool:
    """Whether a job may run with the quota of this variant."""
    return (
        is_admitted(variant.status)
        and has_quota(variant.status)
        and not is_evicted(variant.status)
        and not variant.metadata.deletion_timestamp
    )


def queue_policy(queue: ClusterQueue) -> tuple[tuple[str, ...], str, str]:
    """Return flavors, migration mode and last acceptable flavor; no flavors without a policy."""
    policy = queue.spec.concurrent_admission_policy
    if policy is None or not queue.spec.resource_groups:
        return (), "", ""
    migration = policy.migration
    limits = migration.constraints if migration else None
    return (
        tuple(flavor.name for flavor in queue.spec.resource_groups[0].flavors),
        migration.mode if migration else "",
        (limits.last_acceptable_flavor_name if limits else None) or "",
    )
