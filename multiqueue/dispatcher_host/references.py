"""Which DispatchProfile or dispatcher a Workload's queues name."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import DISPATCH_PROFILE, DISPATCHER, key_of
from multiqueue.jobs.context import Informers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The named profile or dispatcher; if both are empty, the manager's configuration decides.

    Attributes:
        profile: Name of a DispatchProfile.
        dispatcher: Name of a dispatcher, if no profile is named.
        source: The object that names the profile, for messages.
    """

    profile: str = ""
    dispatcher: str = ""
    source: str = ""


NO_REFERENCE = Reference()


def find_reference(
    workload: api.Workload, config: api.MultiKueueConfig | None, informers: Informers
) -> Reference:
    """Return what the LocalQueue names, else the ClusterQueue, else the MultiKueueConfig."""
    key = key_of(workload.metadata.namespace, workload.spec.queue_name)
    local = informers.local_queues.store.get(key)
    admission = workload.status.admission
    name = admission.cluster_queue if admission is not None else ""
    queue = informers.cluster_queues.store.get(name)
    for found, source in ((local, f'LocalQueue "{key}"'), (queue, f'ClusterQueue "{name}"')):
        profile = "" if found is None else found.metadata.annotations.get(DISPATCH_PROFILE, "")
        if profile.strip():
            return Reference(profile=profile.strip(), source=source)
    return _read_config(config)


def _read_config(config: api.MultiKueueConfig | None) -> Reference:
    """Return what a MultiKueueConfig names; its profile has precedence over its dispatcher."""
    if config is None:
        return NO_REFERENCE
    annotations = config.metadata.annotations
    profile = annotations.get(DISPATCH_PROFILE, "").strip()
    return Reference(
        profile=profile,
        dispatcher="" if profile else annotations.get(DISPATCHER, "").strip(),
        source=f'MultiKueueConfig "{config.metadata.name}"' if profile else "",
    )
