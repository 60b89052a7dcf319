"""The pod sets of a Ray cluster: its head, and its groups of workers. Pure.

KubeRay adds containers to the head that the spec does not show. They are in the pod set, so that
quota is held for them, and never in the job. Parity: J-316..J-323.
Deviates: a group counts as KubeRay runs it, within its minReplicas and maxReplicas, and with no
pods while it is suspended; upstream counts replicas only (J-320).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from multiqueue.api import names
from multiqueue.jobs.framework.fields import FieldPath, get_field, set_field
from multiqueue.jobs.framework.integration import InvalidJobError, Job
from multiqueue.jobs.framework.template_kind import RELATED, PodSetSource, TemplateKind
from multiqueue.kube.resources import Resource, resource_of
from multiqueue.lib.quantity import parse_quantity

HEAD = "head"
GATE = {"name": names.ELASTIC_GATE}
RAY_CLUSTERS = resource_of("ray.io/v1", "rayclusters", "RayCluster")
FAULT_TOLERANCE = "ray.io/ft-enabled"
"""Annotation that turns fault tolerance on, as older versions of KubeRay have it."""
AUTOSCALER_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "512Mi"},
    "limits": {"cpu": "500m", "memory": "512Mi"},
}
"""What KubeRay gives its autoscaler if the spec does not say."""
CLEANUP_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
"""What the Job requests that empties Redis at the end; it runs in place of the head."""

Json = Mapping[str, Any]


class RayKind(TemplateKind):
    """What the three kinds share.

    Attributes:
        cluster_field: The path of the cluster's spec in the job.
    """

    own_controller = "ray.io/kuberay-operator"
    cluster_field: FieldPath = ("spec",)

    # ------------------------------------------------------------ pod sets

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the head, and each group of workers with its pods.

        Raises:
            InvalidJobError: the head has no container, or the number of replicas is negative.
        """
        head = (*self.cluster_field, "headGroupSpec", "template")
        if not get_field(job, (*head, "spec", "containers")):
            raise InvalidJobError("the template of the head has no container; add one")
        return [
            PodSetSource(name=HEAD, template=head, count=1),
            *(
                PodSetSource(
                    name=group["groupName"],
                    template=(*self.cluster_field, "workerGroupSpecs", position, "template"),
                    count=self.count_of(job, group),
                )
                for position, group in enumerate(groups_of(self.cluster_of(job)))
            ),
        ]

    def cluster_of(self, job: Job) -> Json:
        """Return the spec of the cluster.

        Raises:
            InvalidJobError: there is none.
        """
        spec = get_field(job, self.cluster_field)
        if not isinstance(spec, Mapping):
            path = ".".join(map(str, self.cluster_field))
            raise InvalidJobError(f"{path} is missing; add the spec of the cluster")
        return spec

    def count_of(self, job: Job, group: Json) -> int:
        """Return how many pods a group of workers has."""
        return pods_of(group)

    def template_of(self, job: Job, source: PodSetSource) -> Json:
        """Return a pod template; that of the head with all that KubeRay adds to it."""
        template = super().template_of(job, source)
        if source.name != HEAD or source.template[-2] != "headGroupSpec":
            return template
        containers = get_field(template, ("spec", "containers"))
        if has_fault_tolerance(job, self.cluster_of(job)):
            containers = [_with_cleanup(containers[0]), *containers[1:]]
        extra = self.head_extras(job)
        changed: Json = set_field(template, ("spec", "containers"), [*containers, *extra])
        return changed

    def head_extras(self, job: Job) -> Sequence[Json]:
        """Return the containers that KubeRay adds to the head."""
        spec = self.cluster_of(job)
        if spec.get("enableInTreeAutoscaling") is not True:
            return ()
        resources = get_field(spec, ("autoscalerOptions", "resources"))
        resources = AUTOSCALER_RESOURCES if resources is None else resources
        return ({"name": "autoscaler", "resources": resources},)

    # ------------------------------------------------------------ elastic jobs

    def is_elastic(self, job: Job) -> bool:
        """Whether the job has the annotation, and all of its pods the gate (J-340)."""
        templates = self.read_templates(job)
        return is_marked_elastic(job) and all(is_gated(template) for _, template in templates)

    def read_templates(self, job: Job) -> Iterator[tuple[FieldPath, Json]]:
        """Yield path and template of the head and of each group that has one."""
        groups = groups_of(get_field(job, self.cluster_field))
        for path in (
            (*self.cluster_field, "headGroupSpec", "template"),
            *(
                (*self.cluster_field, "workerGroupSpecs", position, "template")
                for position in range(len(groups))
            ),
        ):
            template = get_field(job, path)
            if isinstance(template, Mapping):
                yield path, template

    def gated(self, job: Job) -> Job:
        """Return the job with the gate for elastic jobs on the pods of its cluster (J-340)."""
        for path, template in list(self.read_templates(job)):
            if not is_gated(template):
                gates = get_field(template, ("spec", "schedulingGates")) or []
                job = set_field(job, (*path, "spec", "schedulingGates"), [*gates, GATE])
        return job


class RayOwnerKind(RayKind):
    """What RayJob and RayService share: a RayCluster of their own, which may change its size.

    Attributes:
        child_field: The path of that cluster's name in the status.
    """

    related = (RAY_CLUSTERS,)
    child_field: FieldPath

    def with_related(self, job: Job, find: Callable[[Resource, str, str], Job | None]) -> Job:
        """Return an elastic job with its RayCluster (J-324)."""
        name = get_field(job, self.child_field)
        if not name or not is_marked_elastic(job):
            return job
        cluster = find(RAY_CLUSTERS, job["metadata"]["namespace"], str(name))
        return job if cluster is None else {**job, RELATED: cluster}

    def own_annotations(self, job: Job) -> Mapping[str, str]:
        """Return the generation of an elastic job's cluster; empty while there is none (J-325)."""
        if not is_marked_elastic(job):
            return {}
        generation = get_field(job, (RELATED, "metadata", "generation"))
        return {names.RAY_CLUSTER_GENERATION: "" if generation is None else str(generation)}

    def sources(self, job: Job) -> Sequence[PodSetSource]:
        """Return the pod sets, at the size of the cluster if it scales itself (J-324)."""
        sources = super().sources(job)
        known = {source.name for source in sources}
        for group in self._live_groups(job):
            if group["groupName"] not in known:
                name = get_field(job, (RELATED, "metadata", "name"))
                raise InvalidJobError(
                    f'RayCluster "{name}" has the worker group "{group["groupName"]}", which the '
                    f"{self.gvk.kind} does not have; remove the group, or add it to both"
                )
        return sources

    def count_of(self, job: Job, group: Json) -> int:
        """Return how many pods a group has in the cluster, or else by the spec."""
        for live in self._live_groups(job):
            if live["groupName"] == group["groupName"] and live.get("replicas") is not None:
                return pods_of(live)
        return pods_of(group)

    def _live_groups(self, job: Job) -> Sequence[Json]:
        scales_itself = self.cluster_of(job).get("enableInTreeAutoscaling") is True
        return groups_of(get_field(job, (RELATED, "spec"))) if scales_itself else ()


def groups_of(spec: Any) -> Sequence[Json]:
    """Return the groups of workers of a cluster's spec."""
    return get_field(spec, ("workerGroupSpecs",)) or ()


def pods_of(group: Json) -> int:
    """Return how many pods a group of workers has.

    Raises:
        InvalidJobError: the number of replicas is negative.
    """
    replicas, least, most = (group.get(key) for key in ("replicas", "minReplicas", "maxReplicas"))
    count = 1 if replicas is None else int(replicas)
    if count < 0:
        raise InvalidJobError(
            f'worker group "{group["groupName"]}": {count} replicas; correct the number'
        )
    if group.get("suspend") is True:
        return 0
    if least is not None and count < least:
        count = int(least)
    elif most is not None and count > most:
        count = int(most)
    return count * max(1, int(group.get("numOfHosts") or 1))


def has_fault_tolerance(job: Job, spec: Json) -> bool:
    """Whether the cluster keeps its state in Redis, which a Job empties at the end (J-318)."""
    annotations = job["metadata"].get("annotations") or {}
    is_set = spec.get("gcsFaultToleranceOptions") is not None
    return is_set or annotations.get(FAULT_TOLERANCE) == "true"


def is_marked_elastic(job: Job) -> bool:
    """Whether the job has the annotation of elastic jobs."""
    return bool((job["metadata"].get("annotations") or {}).get(names.ELASTIC_JOB) == "true")


def is_gated(template: Json) -> bool:
    """Whether pods of a template wait for a slice that is admitted."""
    return GATE in (get_field(template, ("spec", "schedulingGates")) or ())


def _with_cleanup(container: Json) -> Json:
    """Raise the requests of a container to what the Job requests that empties Redis."""
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    raised = {
        name: least
        for name, least in CLEANUP_REQUESTS.items()
        if (present := requests.get(name, limits.get(name))) is None
        or parse_quantity(str(present)) < parse_quantity(least)
    }
    return {**container, "resources": {**resources, "requests": {**requests, **raised}}}
