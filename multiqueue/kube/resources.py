"""The REST collections that we use, and the paths of their objects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from multiqueue.api import names
from multiqueue.kube.errors import NotFound

_SAFE_SEGMENT = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:@-]+")
"""Names that may be put into a path. Names come from users (a Secret's name in a MultiKueueCluster,
a queue in a label): ``../secrets/x`` must never become another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One REST collection."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``v1`` or ``batch/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the path of the collection, of one object or of its subresource.

        For a namespaced resource without namespace, it is the collection over all namespaces.

        Raises:
            NotFound: no object can have this name.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if namespace and self.namespaced:
            parts += ["namespaces", self._segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and not namespace:
                raise ValueError(f'{self.kind} "{name}" needs a namespace')
            parts.append(self._segment(name))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def _segment(self, text: str) -> str:
        if _SAFE_SEGMENT.fullmatch(text):
            return text
        raise NotFound(
            404,
            reason="NotFound",
            message=f'{self.kind}: "{text}" is not a name an object can have',
        )


def _kueue(plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=names.GROUP, version="v1beta2", plural=plural, kind=kind, namespaced=namespaced
    )


def resource_of(api_version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    """Return the collection of a kind; ``api_version`` such as ``v1`` or ``batch/v1``."""
    group, _, version = api_version.rpartition("/")
    return Resource(group=group, version=version, plural=plural, kind=kind, namespaced=namespaced)


WORKLOADS = _kueue("workloads", "Workload", namespaced=True)
LOCAL_QUEUES = _kueue("localqueues", "LocalQueue", namespaced=True)
CLUSTER_QUEUES = _kueue("clusterqueues", "ClusterQueue")
COHORTS = _kueue("cohorts", "Cohort")
RESOURCE_FLAVORS = _kueue("resourceflavors", "ResourceFlavor")
ADMISSION_CHECKS = _kueue("admissionchecks", "AdmissionCheck")
TOPOLOGIES = _kueue("topologies", "Topology")
WORKLOAD_PRIORITY_CLASSES = _kueue("workloadpriorityclasses", "WorkloadPriorityClass")
MULTIKUEUE_CONFIGS = _kueue("multikueueconfigs", "MultiKueueConfig")
MULTIKUEUE_CLUSTERS = _kueue("multikueueclusters", "MultiKueueCluster")
PROVISIONING_REQUEST_CONFIGS = _kueue("provisioningrequestconfigs", "ProvisioningRequestConfig")
DISPATCH_PROFILES = resource_of(
    "multiqueue.dev/v1alpha1", "dispatchprofiles", "DispatchProfile", namespaced=False
)
DISRUPTION_POLICIES = resource_of(
    "multiqueue.dev/v1alpha1", "disruptionpolicies", "DisruptionPolicy", namespaced=False
)
JOB_KINDS = resource_of("multiqueue.dev/v1alpha1", "jobkinds", "JobKind", namespaced=False)
QUOTA_PLANS = resource_of("multiqueue.dev/v1alpha1", "quotaplans", "QuotaPlan", namespaced=False)
USAGE_REPORTS = resource_of("multiqueue.dev/v1alpha1", "usagereports", "UsageReport")
PROVISIONING_REQUESTS = resource_of(
    "autoscaling.x-k8s.io/v1", "provisioningrequests", "ProvisioningRequest"
)
"""Some clusters serve this kind in v1beta1 only: `dataclasses.replace` the version there."""

PODS = resource_of("v1", "pods", "Pod")
SECRETS = resource_of("v1", "secrets", "Secret")
CONFIG_MAPS = resource_of("v1", "configmaps", "ConfigMap")
POD_TEMPLATES = resource_of("v1", "podtemplates", "PodTemplate")
CLUSTER_PROFILES = resource_of(
    "multicluster.x-k8s.io/v1alpha1", "clusterprofiles", "ClusterProfile"
)
SERVICES = resource_of("v1", "services", "Service")
SERVICE_ACCOUNTS = resource_of("v1", "serviceaccounts", "ServiceAccount")
EVENTS = resource_of("v1", "events", "Event")
LIMIT_RANGES = resource_of("v1", "limitranges", "LimitRange")
NAMESPACES = resource_of("v1", "namespaces", "Namespace", namespaced=False)
NODES = resource_of("v1", "nodes", "Node", namespaced=False)
JOBS = resource_of("batch/v1", "jobs", "Job")
LEASES = resource_of("coordination.k8s.io/v1", "leases", "Lease")
PRIORITY_CLASSES = resource_of(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False
)
RUNTIME_CLASSES = resource_of("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
DEVICE_CLASSES = resource_of("resource.k8s.io/v1", "deviceclasses", "DeviceClass", namespaced=False)
RESOURCE_CLAIM_TEMPLATES = resource_of(
    "resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
CRDS = resource_of(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
MUTATING_WEBHOOKS = resource_of(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = resource_of(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
API_SERVICES = resource_of(
    "apiregistration.k8s.io/v1", "apiservices", "APIService", namespaced=False
)
TOKEN_REVIEWS = resource_of(
    "authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = resource_of(
    "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_RULES_REVIEWS = resource_of(
    "authorization.k8s.io/v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = resource_of(
    "authorization.k8s.io/v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
