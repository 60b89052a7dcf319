"""Reads quotas, requests and nodes from wire objects, for several rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from multiqueue.api.names import MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER, QUEUE_NAME
from multiqueue.api.validation.access import Object, items, mapping, quantity, text
from multiqueue.lib.quantity import Quantity
from multiqueue.lint.finding import Severity
from multiqueue.lint.world import Lookup, Sight, flavors_of, labels_of, namespace_of
from multiqueue.model.pod_template import sum_pod_requests

ZERO = Quantity(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """The quota of one resource of one flavor; an absent limit is None."""

    path: str
    flavor: str
    resource: str
    nominal: Quantity
    borrowing: Quantity | None
    lending: Quantity | None


def quotas_of(queue: Object) -> Iterator[FlavorQuota]:
    """Yield all quotas of a ClusterQueue or Cohort; validation reports malformed ones."""
    for path, flavor in flavors_of(queue):
        for k, resource in items(flavor.get("resources")):
            nominal = quantity(resource.get("nominalQuota"))
            if nominal is not None:
                yield FlavorQuota(
                    path=f"{path}.resources[{k}]",
                    flavor=text(flavor.get("name")),
                    resource=text(resource.get("name")),
                    nominal=nominal,
                    borrowing=quantity(resource.get("borrowingLimit")),
                    lending=quantity(resource.get("lendingLimit")),
                )


def covered_by(queue: Object) -> frozenset[str]:
    """Return the resources for which a ClusterQueue has quota."""
    return frozenset(quota.resource for quota in quotas_of(queue))


def cohort_of(queue: Object) -> str:
    """Return the cohort of a ClusterQueue, or the parent of a Cohort."""
    spec = mapping(queue, "spec")
    return text(spec.get("cohortName")) or text(spec.get("parentName"))


def preemption_of(queue: Object, field: str) -> str:
    """Return one of the preemption policies of a ClusterQueue."""
    return text(mapping(queue, "spec", "preemption").get(field)) or "Never"


def checks_of(queue: Object) -> Iterator[tuple[str, Object]]:
    """Yield (path, rule) for each AdmissionCheck of a ClusterQueue."""
    strategy = mapping(queue, "spec", "admissionChecksStrategy")
    for i, rule in items(strategy.get("admissionChecks")):
        yield f"spec.admissionChecksStrategy.admissionChecks[{i}]", rule


def controllers_of(queue: Object, lookup: Lookup) -> frozenset[str]:
    """Return the controllers of a ClusterQueue's AdmissionChecks, of those that were read."""
    return frozenset(
        text(mapping(check, "spec").get("controllerName"))
        for _, rule in checks_of(queue)
        if (check := lookup.get("AdmissionCheck", text(rule.get("name")))) is not None
    )


def runs_elsewhere(queue: Object, lookup: Lookup) -> bool:
    """Whether a queue's jobs need no nodes of this cluster, or get nodes made for them."""
    elsewhere = {MULTIKUEUE_CONTROLLER, PROVISIONING_REQUEST_CONTROLLER}
    return bool(controllers_of(queue, lookup) & elsewhere)


def queue_label(job: Object) -> str:
    """Return the LocalQueue that a job names; empty if it names none."""
    return labels_of(job).get(QUEUE_NAME, "")


def queue_of_job(job: Object, lookup: Lookup) -> Object | None:
    """Return the ClusterQueue that a job waits in, if it was read."""
    name = queue_label(job)
    local = lookup.get("LocalQueue", name, namespace_of(job)) if name else None
    if local is None:
        return None
    return lookup.get("ClusterQueue", text(mapping(local, "spec").get("clusterQueue")))


def requests_of(template: Object) -> Mapping[str, int]:
    """Return what one pod requests, as quota counts it; resources with zero are left out."""
    requests = sum_pod_requests(template).requests
    return {name: int(amount) for name, amount in requests.items() if int(amount) > 0}


def missing_severity(lookup: Lookup, kind: str) -> Severity:
    """Return the severity of a missing object."""
    return {
        Sight.ALL: Severity.ERROR,
        Sight.SOME: Severity.WARNING,
        Sight.NONE: Severity.INFO,
    }[lookup.sight(kind)]


def absent(lookup: Lookup, kind: str, name: str) -> str:
    """Return the words that report a missing object."""
    if lookup.sight(kind) is Sight.ALL:
        return f'{kind} "{name}" does not exist'
    return f'{kind} "{name}" is not among what was read'
