"""Submits a manifest to a snapshot: the Workload that the manager would make of the job. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.names import MULTIKUEUE_CONTROLLER, key_of
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2.meta import format_time
from multiqueue.jobs.framework.compose import compose_workload, queue_name, workload_class
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import InvalidJobError
from multiqueue.jobs.framework.priority import (
    PriorityClasses,
    PriorityClassNotFoundError,
    resolve_priority,
)
from multiqueue.jobs.registry import SupportedKind
from multiqueue.jobs.setup import enabled_frameworks, load_kind
from multiqueue.whatif.change_request import ChangeError
from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]
IMAGINED = "imagined"
"""Uid of objects that do not exist."""


def submit_job(snapshot: Snapshot, manifest: Mapping[str, Any], namespace: str) -> str:
    """Add the Workload of a job to a snapshot; return its key.

    Args:
        snapshot: The snapshot to change.
        manifest: The job.
        namespace: Its namespace.

    Raises:
        ChangeError: the job would be refused, or its queue is not in the snapshot.
        SnapshotError: the configuration cannot be read.
    """
    config = snapshot.read_configuration()
    metadata = dict(manifest.get("metadata") or {})
    name = str(metadata.get("name") or f"{metadata.get('generateName', 'job-')}xxxxx")
    what = f"{manifest.get('kind')} {namespace}/{name}"
    kind, gvk = _find_kind(manifest, config, what)
    imagined = {**metadata, "name": name, "namespace": namespace, "uid": IMAGINED}
    try:
        job = _complete(kind, {**manifest, "metadata": imagined}, snapshot, config)
        priority = resolve_priority(
            workload_class(job),
            kind.integration.priority_class(job),
            _priority_classes(snapshot, config),
        )
        body = compose_workload(job, gvk, kind.integration.pod_sets(job), priority)
        decode(api.Workload, body)
    except (InvalidJobError, PriorityClassNotFoundError) as error:
        raise ChangeError(f"{what}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        words = f"{type(error).__name__}: {error}"
        raise ChangeError(f"{what} is not what its kind looks like ({words})") from error
    _check_queue(snapshot, namespace, queue_name(job), what)
    created = {"uid": IMAGINED, "creationTimestamp": format_time(snapshot.taken_at)}
    body["metadata"] |= created
    snapshot.put(body)
    return key_of(namespace, str(body["metadata"]["name"]))


def _find_kind(
    manifest: Mapping[str, Any], config: Configuration, what: str
) -> tuple[SupportedKind, GroupVersionKind]:
    version, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
    row = find_job_kind(version, kind)
    if row is None or not row.folder:
        raise ChangeError(f"{what}: {kind}.{version} is no kind of job that is built in")
    if row.framework not in enabled_frameworks(config):
        raise ChangeError(f"{what}: the manager's integrations.frameworks lacks {row.framework}")
    return load_kind(row), GroupVersionKind.of(version, kind)


def _complete(kind: SupportedKind, job: Json, snapshot: Snapshot, config: Configuration) -> Json:
    """Return a job with the defaults of its webhooks; raise if they would refuse it."""
    completed = kind.webhook.default(job, SnapshotLookup(snapshot, config), config).job
    if errors := kind.webhook.validate_create(completed, config):
        raise InvalidJobError("; ".join(map(str, errors)))
    return completed


def _check_queue(snapshot: Snapshot, namespace: str, queue: str, what: str) -> None:
    if not queue:
        raise ChangeError(f"{what} names no queue: set the label kueue.x-k8s.io/queue-name")
    if key_of(namespace, queue) not in snapshot.of("LocalQueue"):
        here = f"{namespace}/"
        known = ", ".join(sorted(k for k in snapshot.of("LocalQueue") if k.startswith(here)))
        raise ChangeError(
            f'{what}: there is no LocalQueue "{namespace}/{queue}", '
            + (f"only {known}" if known else "and no other in that namespace; name another with -n")
        )


def _priority_classes(snapshot: Snapshot, config: Configuration) -> PriorityClasses:
    return PriorityClasses(
        find_workload_class=partial(_find_class, snapshot),
        find_pod_class=snapshot.of("PriorityClass").get,
        list_pod_classes=snapshot.of("PriorityClass").values,
        has_default=config.gates.enabled(Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING),
    )


def _find_class(snapshot: Snapshot, name: str) -> api.WorkloadPriorityClass | None:
    found = snapshot.of("WorkloadPriorityClass").get(name)
    return decode(api.WorkloadPriorityClass, found) if found is not None else None


@dataclass(frozen=True, slots=True)
class SnapshotLookup:
    """A `QueueLookup` over a snapshot."""

    snapshot: Snapshot
    config: Configuration

    def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether the LocalQueue exists."""
        return key_of(namespace, name) in self.snapshot.of("LocalQueue")

    def leads_to_multikueue(self, namespace: str, name: str) -> bool:
        """Whether the ClusterQueue behind a LocalQueue has a MultiKueue check."""
        queue = self.snapshot.of("LocalQueue").get(key_of(namespace, name))
        behind = (
            self.snapshot.of("ClusterQueue").get(queue["spec"]["clusterQueue"]) if queue else None
        )
        if behind is None:
            return False
        strategy = decode(api.ClusterQueue, behind).spec.admission_checks_strategy
        checks = self.snapshot.of("AdmissionCheck")
        return any(
            checks[rule.name]["spec"].get("controllerName") == MULTIKUEUE_CONTROLLER
            for rule in (strategy.admission_checks if strategy else ())
            if rule.name in checks
        )

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        found = self.snapshot.of("Namespace").get(namespace)
        return found["metadata"]["labels"] if found is not None else {}

    def has_priority_class(self, name: str) -> bool:
        """Whether the WorkloadPriorityClass exists."""
        return name in self.snapshot.of("WorkloadPriorityClass")

    def is_queued_kind(self, api_version: str, kind: str) -> bool:
        """Whether jobs of this kind are queued here."""
        row = find_job_kind(api_version, kind)
        return row is not None and row.framework in enabled_frameworks(self.config)

    def has_ancestor(self, job: Mapping[str, Any]) -> bool:
        """Whether another object manages the job: the owners of a manifest are not looked at."""
        del job
        return False
