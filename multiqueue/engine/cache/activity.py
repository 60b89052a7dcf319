"""Whether a ClusterQueue may admit, and why not (E-39, M-62)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from multiqueue.api.conditions import QueueReason
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER
from multiqueue.model.cluster_queue import AdmissionCheckInfo, ClusterQueue, StopPolicy
from multiqueue.model.resource_flavor import ResourceFlavor, Topology

_READY = "Can admit new workloads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """``reason`` is None for a queue that may admit."""

    reason: QueueReason | None = None
    message: str = _READY


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What ClusterQueues refer to, by name."""

    flavors: Mapping[str, ResourceFlavor]
    checks: Mapping[str, AdmissionCheckInfo]
    topologies: Mapping[str, Topology]


def judge_activity(queue: ClusterQueue, references: References, *, in_cycle: bool) -> Activity:
    """Return whether the queue may admit; the first problem gives the reason, all the message."""
    if queue.terminating:
        message = "Can't admit new workloads; clusterQueue is terminating"
        return Activity(reason=QueueReason.TERMINATING, message=message)
    problems: list[tuple[QueueReason, str]] = []
    if queue.stop_policy is not StopPolicy.NONE:
        problems.append((QueueReason.STOPPED, "is stopped"))
    problems += _flavor_problems(queue, references)
    problems += _check_problems(queue, references)
    if in_cycle:
        problems.append((QueueReason.UNKNOWN, f'cohort "{queue.cohort}" is part of a cycle'))
    if not problems:
        return Activity()
    words = ", ".join(words for _, words in problems)
    return Activity(reason=problems[0][0], message=f"Can't admit new workloads: {words}.")


def _flavor_problems(queue: ClusterQueue, references: References) -> list[tuple[QueueReason, str]]:
    names = [flavor.name for group in queue.resource_groups for flavor in group.flavors]
    missing = [name for name in names if name not in references.flavors]
    problems = []
    if missing:
        words = f"references missing ResourceFlavor(s): {_list(missing)}"
        problems.append((QueueReason.FLAVOR_NOT_FOUND, words))
    if _checks_run_by(queue, references, MULTIKUEUE_CONTROLLER):
        return problems  # the topology lives on the workers (M-63)
    for name in names:
        flavor = references.flavors.get(name)
        topology = flavor.topology_name if flavor else None
        if topology is not None and topology not in references.topologies:
            words = f'there is no Topology "{topology}" for TAS flavor "{name}"'
            problems.append((QueueReason.TOPOLOGY_NOT_FOUND, words))
    return problems


def _check_problems(queue: ClusterQueue, references: References) -> list[tuple[QueueReason, str]]:
    problems = []
    names = sorted({rule.name for rule in queue.checks})
    missing = [name for name in names if name not in references.checks]
    inactive = [
        name for name in names if name not in missing and not references.checks[name].active
    ]
    if missing:
        words = f"references missing AdmissionCheck(s): {_list(missing)}"
        problems.append((QueueReason.ADMISSION_CHECK_NOT_FOUND, words))
    if inactive:
        words = f"references inactive AdmissionCheck(s): {_list(inactive)}"
        problems.append((QueueReason.ADMISSION_CHECK_INACTIVE, words))
    return problems + _multikueue_problems(queue, references)


def _multikueue_problems(
    queue: ClusterQueue, references: References
) -> list[tuple[QueueReason, str]]:
    remote = _checks_run_by(queue, references, MULTIKUEUE_CONTROLLER)
    if not remote:
        return []
    problems = []
    flavors = {flavor.name for group in queue.resource_groups for flavor in group.flavors}
    if len(remote) > 1:
        what = "multiple MultiKueue AdmissionChecks on the same ClusterQueue"
        words = f"Cannot use {what}, found: {_list(remote)}"
        problems.append((QueueReason.MULTIPLE_MULTIKUEUE_CHECKS, words))
    partial = [
        rule.name
        for rule in queue.checks
        if rule.name in remote and rule.on_flavors and not flavors <= rule.on_flavors
    ]
    if partial:
        what = "MultiKueue AdmissionCheck per flavor"
        words = f"Cannot specify {what}, found: {_list(sorted(partial))}"
        problems.append((QueueReason.MULTIKUEUE_CHECK_PER_FLAVOR, words))
    provisioning = _checks_run_by(queue, references, PROVISIONING_REQUEST_CONTROLLER)
    if provisioning:
        what = "both MultiKueue and ProvisioningRequest AdmissionChecks together"
        words = f"Cannot use {what}, found: {_list(remote)}, {_list(provisioning)}"
        problems.append((QueueReason.MULTIKUEUE_WITH_PROVISIONING, words))
    if queue.concurrent is not None:
        what = "MultiKueue and concurrentAdmissionPolicy together"
        words = f"Cannot use {what}, found: {', '.join(remote)}"
        problems.append((QueueReason.MULTIKUEUE_WITH_CONCURRENT_ADMISSION, words))
    return problems


def _checks_run_by(queue: ClusterQueue, references: References, controller: str) -> list[str]:
    names = sorted({rule.name for rule in queue.checks})
    return [
        name
        for name in names
        if name in references.checks and references.checks[name].controller_name == controller
    ]


def _list(names: list[str]) -> str:
    return ",".join(dict.fromkeys(names))
