"""The typed Configuration file, with every default in one place.

Parity: config.kueue.x-k8s.io/v1beta2 of Kueue 0.20. Optional sections that are off are None after
loading, so that one check tells whether they are on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from multiqueue.api import names
from multiqueue.api.config.gates import Gates
from multiqueue.api.durations import Duration
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2.meta import LabelSelector

GROUP = "config.kueue.x-k8s.io"
V1BETA1 = f"{GROUP}/v1beta1"
V1BETA2 = f"{GROUP}/v1beta2"

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
PROCESS, THREAD = "Process", "Thread"
WARN, DENY = "Warn", "Deny"


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A part of the configuration file; unknown fields are errors."""


class Webhook(Section, frozen=True, kw_only=True):
    """Where the webhook server listens."""

    port: int = 9443
    host: str = ""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - upstream's default


class LeaderElection(Section, frozen=True, kw_only=True):
    """The Lease that makes one replica the active one."""

    leader_elect: bool = True
    lease_duration: Duration = Duration(seconds=15)
    renew_deadline: Duration = Duration(seconds=10)
    retry_period: Duration = Duration(seconds=2)
    resource_lock: str = "leases"
    resource_name: str = "c1f6bfd2.kueue.x-k8s.io"
    resource_namespace: str = ""


class MetricLabel(Section, frozen=True, kw_only=True):
    """An extra metric label taken from a label or annotation of an object."""

    name: str
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: str = "ClusterQueue"
    tracked_values: tuple[str, ...] = ()


class LocalQueueMetrics(Section, frozen=True, kw_only=True):
    """Metrics per LocalQueue."""

    enable: bool = True
    local_queue_selector: LabelSelector | None = None


class Metrics(Section, frozen=True, kw_only=True):
    """The metrics endpoint."""

    bind_address: str = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[MetricLabel, ...] = ()
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics()


class Health(Section, frozen=True, kw_only=True):
    """The probe endpoints."""

    health_probe_bind_address: str = ":8081"
    readiness_endpoint_name: str = "readyz"
    liveness_endpoint_name: str = "healthz"


class Controller(Section, frozen=True, kw_only=True):
    """How reconcilers run."""

    group_kind_concurrency: dict[str, int] = {}
    """Number of concurrent reconciles by ``Kind.group``; a core kind has no group."""
    cache_sync_timeout: Duration = Duration(minutes=2)

    def workers_for(self, kind: str, group: str, default: int) -> int:
        """Return the number of objects of a kind that are reconciled at a time."""
        key = f"{kind}.{group}" if group else kind
        return self.group_kind_concurrency.get(key, default)


class Tls(Section, frozen=True, kw_only=True):
    """TLS of all our servers; empty means the runtime's defaults."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[str, ...] = ()


class InternalCertManagement(Section, frozen=True, kw_only=True):
    """Our own CA and serving certificate, kept in a Secret."""

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105 - a name, not a secret


class RequeuingStrategy(Section, frozen=True, kw_only=True):
    """Backoff of workloads whose pods were not ready in time."""

    timestamp: str = "Eviction"
    backoff_limit_count: int | None = None
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 3600


class WaitForPodsReady(Section, frozen=True, kw_only=True):
    """Eviction of admitted workloads whose pods do not become ready.

    ``recovery_timeout`` of None means ``timeout``.
    """

    timeout: Duration = Duration(minutes=30)
    block_admission: bool = False
    recovery_timeout: Duration | None = None
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()

    @property
    def effective_recovery_timeout(self) -> timedelta:
        """How long pods that were ready once may be unready."""
        return self.timeout if self.recovery_timeout is None else self.recovery_timeout


class ClientConnection(Section, frozen=True, kw_only=True):
    """Ceiling of requests to the API server."""

    qps: float = 300.0
    burst: int = 500


class Integrations(Section, frozen=True, kw_only=True):
    """The job kinds that are managed."""

    frameworks: tuple[str, ...] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()
    chargeback_label_keys: tuple[str, ...] = ()


class MultiKueueExternalFramework(Section, frozen=True, kw_only=True):
    """A kind without a built-in adapter: ``Kind.version.group``."""

    name: str


class ExecConfig(Section, frozen=True, kw_only=True):
    """An exec plugin that gives credentials, as in a kubeconfig."""

    command: str
    args: tuple[str, ...] | None = None
    env: tuple[dict[str, str], ...] | None = None
    api_version: str
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str


class AccessProvider(Section, frozen=True, kw_only=True):
    """Credentials for clusters of one ClusterProfile provider."""

    name: str
    exec_config: ExecConfig


class ClusterProfile(Section, frozen=True, kw_only=True):
    """How ClusterProfiles become connections."""

    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


class IncrementalDispatcher(Section, frozen=True, kw_only=True):
    """How many clusters the incremental dispatcher adds in a round."""

    step_size: int = 3


class DispatcherIsolation(Section, frozen=True, kw_only=True):
    """Deviates: an extension of ours. Where dispatchers run that are not built in."""

    mode: str = PROCESS
    """``Process``: a process per dispatcher; ``Thread``: the manager's own process."""
    memory: str = "1Gi"
    """Limit of the address space of such a process; 0: no limit."""


class MultiKueue(Section, frozen=True, kw_only=True):
    """Dispatch to worker clusters."""

    gc_interval: Duration = Duration(minutes=1)
    origin: str = names.DEFAULT_ORIGIN
    worker_lost_timeout: Duration = Duration(minutes=15)
    dispatcher_name: str = names.DISPATCHER_ALL_AT_ONCE
    external_frameworks: tuple[MultiKueueExternalFramework, ...] = ()
    cluster_profile: ClusterProfile | None = None
    incremental_dispatcher_config: IncrementalDispatcher | None = None
    dispatcher_arguments: dict[str, Any] = {}
    """Deviates: an extension of ours. Arguments of the dispatcher plugin, by name."""
    dispatcher_isolation: DispatcherIsolation = DispatcherIsolation()
    dispatch_profile: str = ""
    """Deviates: an extension of ours. The DispatchProfile if no queue or config names one."""
    drain_period: Duration = Duration(seconds=6)
    drain_at_once: int = 4
    """Deviates: extensions of ours. The pace of drains whose annotation gives none."""
    preemption_timeout: Duration = Duration(minutes=5)
    """Deviates: an extension of ours. With orchestrated preemption, the time that one worker has to
    preempt before another one may; it is fixed upstream (M-181)."""
    allowed_proxies: tuple[str, ...] = ()
    """Deviates: an extension of ours. Proxies that kubeconfigs of workers may name."""


class FairSharing(Section, frozen=True, kw_only=True):
    """Fair sharing between ClusterQueues of a cohort."""

    preemption_strategies: tuple[str, ...]


class AdmissionFairSharing(Section, frozen=True, kw_only=True):
    """Fair sharing between LocalQueues by decayed usage."""

    usage_half_life_time: Duration = Duration()
    usage_sampling_interval: Duration = Duration(minutes=5)
    resource_weights: dict[str, float] = {}


class Transformation(Section, frozen=True, kw_only=True):
    """Turns one requested resource into others before quota is counted."""

    input: str
    strategy: str = "Retain"
    multiply_by: str = ""
    outputs: dict[str, str | int | float] = {}


class DeviceSource(Section, frozen=True, kw_only=True):
    """A counter or a capacity of a device."""

    name: str
    driver: str
    device_selector: str = ""


class DeviceSourceChoice(Section, frozen=True, kw_only=True):
    """Exactly one of the two."""

    counter: DeviceSource | None = None
    capacity: DeviceSource | None = None


class DeviceClassMapping(Section, frozen=True, kw_only=True):
    """Counts device classes as one resource."""

    name: str
    device_class_names: tuple[str, ...]
    sources: tuple[DeviceSourceChoice, ...] = ()


class Resources(Section, frozen=True, kw_only=True):
    """Which requests count against quota."""

    quota_check_strategy: str = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Section, frozen=True, kw_only=True):
    """How long Workloads are kept; None means for ever."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Section, frozen=True, kw_only=True):
    """How long our objects are kept."""

    workloads: WorkloadRetention | None = None


class VisibilityServer(Section, frozen=True, kw_only=True):
    """Where the aggregated API listens."""

    bind_address: str = ""
    bind_port: int = 8082


class Configuration(Section, frozen=True, kw_only=True):
    """The whole file.

    ``Configuration()`` holds the defaults; `load_configuration` reads and checks a file.
    """

    namespace: str = names.DEFAULT_NAMESPACE
    webhook: Webhook = Webhook()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    health: Health = Health()
    pprof_bind_address: str = ""
    controller: Controller = Controller()
    tls: Tls = Tls()
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    """None: off, by the gate DisableWaitForPodsReady or by a v1beta1 file."""
    client_connection: ClientConnection = ClientConnection()
    integrations: Integrations = Integrations()
    unsupported_kinds: str = WARN
    """Deviates: an extension of ours. How to treat an object that names a queue, if its kind is not
    queued yet: ``Warn`` lets it run, outside of every quota; ``Deny`` refuses it."""
    multi_kueue: MultiKueue = MultiKueue()
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Resources()
    feature_gates: dict[str, bool] = {}
    object_retention_policies: ObjectRetentionPolicies = ObjectRetentionPolicies()
    visibility_server: VisibilityServer = VisibilityServer()

    @property
    def gates(self) -> Gates:
        """The feature gates in force."""
        return Gates.of(**self.feature_gates)

    @property
    def jobs_namespace_selector(self) -> dict[str, Any]:
        """``managedJobsNamespaceSelector`` in wire form; by default all but system namespaces."""
        if self.managed_jobs_namespace_selector is not None:
            return encode(self.managed_jobs_namespace_selector)
        return {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": ["kube-system", self.namespace],
                }
            ]
        }
