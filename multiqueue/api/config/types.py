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
JSON, SLACK = "JSON", "Slack"
TOKEN, PROXY = "Token", "Proxy"


class Section(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A part of the configuration file; unknown fields are errors."""


class Webhook(Section, frozen=True, kw_only=True):
    """Where the webhook server listens."""

    port: int = 9443
    """Port of the webhook server."""
    host: str = ""
    """Address that the webhook server listens on; empty: all."""
    cert_dir: str = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - upstream's default
    """Folder with ``tls.crt`` and ``tls.key`` of the servers, if ``internalCertManagement`` is
    off."""


class LeaderElection(Section, frozen=True, kw_only=True):
    """The Lease that makes one replica the active one."""

    leader_elect: bool = True
    """Whether replicas choose a leader. Without it, run one replica only."""
    lease_duration: Duration = Duration(seconds=15)
    """How long the others wait after the leader's last renewal before one of them takes over."""
    renew_deadline: Duration = Duration(seconds=10)
    """How long the leader tries to renew before it stops to lead."""
    retry_period: Duration = Duration(seconds=2)
    """Time between two attempts to get or renew the Lease."""
    resource_lock: str = "leases"
    """Kind of the lock; only ``leases``."""
    resource_name: str = "c1f6bfd2.kueue.x-k8s.io"
    """Name of the Lease."""
    resource_namespace: str = ""
    """Namespace of the Lease; empty: that of the manager."""


class MetricLabel(Section, frozen=True, kw_only=True):
    """An extra metric label taken from a label or annotation of an object."""

    name: str
    """Name of the label of the metric."""
    source_label_key: str = ""
    """Key of the label that has the value; ``name`` if this and the annotation are empty."""
    source_annotation_key: str = ""
    """Key of the annotation that has the value."""
    source_kind: str = "ClusterQueue"
    """Kind of the object: ClusterQueue, LocalQueue, Cohort or Workload."""
    tracked_values: tuple[str, ...] = ()
    """Values that are told apart; all others are one."""


class LocalQueueMetrics(Section, frozen=True, kw_only=True):
    """Metrics per LocalQueue."""

    enable: bool = True
    """Whether metrics of LocalQueues are served."""
    local_queue_selector: LabelSelector | None = None
    """Labels of the LocalQueues that have metrics; by default all have."""


class Metrics(Section, frozen=True, kw_only=True):
    """The metrics endpoint."""

    bind_address: str = ":8443"
    """Address and port of the metrics; ``0`` turns them off."""
    enable_cluster_queue_resources: bool = False
    """Whether quotas and usage by flavor and resource are served as metrics."""
    custom_labels: tuple[MetricLabel, ...] = ()
    """More labels of metrics, taken from labels and annotations of objects."""
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics()
    """Metrics of LocalQueues."""


class Health(Section, frozen=True, kw_only=True):
    """The probe endpoints."""

    health_probe_bind_address: str = ":8081"
    """Address and port of the probes; ``0`` turns them off."""
    readiness_endpoint_name: str = "readyz"
    """Path of the readiness probe, without the slash."""
    liveness_endpoint_name: str = "healthz"
    """Path of the liveness probe, without the slash."""


class Controller(Section, frozen=True, kw_only=True):
    """How reconcilers run."""

    group_kind_concurrency: dict[str, int] = {}
    """Objects reconciled at a time, by ``Kind.group``; the key of a core kind is ``Kind``."""
    cache_sync_timeout: Duration = Duration(minutes=2)
    """How long the first listing of all kinds may take before the start fails."""

    def workers_for(self, kind: str, group: str, default: int) -> int:
        """Return the number of objects of a kind that are reconciled at a time."""
        key = f"{kind}.{group}" if group else kind
        return self.group_kind_concurrency.get(key, default)


class Tls(Section, frozen=True, kw_only=True):
    """TLS of all our servers; empty means the runtime's defaults."""

    min_version: str = ""
    """Oldest version that is accepted: VersionTLS12 or VersionTLS13."""
    cipher_suites: tuple[str, ...] = ()
    """Cipher suites of TLS 1.2 that are accepted, by their IANA names."""
    curve_preferences: tuple[str, ...] = ()
    """The curve for the exchange of keys; one at most."""


class InternalCertManagement(Section, frozen=True, kw_only=True):
    """Our own CA and serving certificate, kept in a Secret."""

    enable: bool = True
    """Whether the manager makes and renews its own certificates; off: cert-manager or
    ``webhook.certDir`` has them."""
    webhook_service_name: str = "kueue-webhook-service"
    """Service of the webhooks, for which the certificate is made."""
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105 - a name, not a secret
    """Secret that keeps the CA and the certificate."""


class RequeuingStrategy(Section, frozen=True, kw_only=True):
    """Backoff of workloads whose pods were not ready in time."""

    timestamp: str = "Eviction"
    """What an evicted Workload is ordered by when it waits again: ``Eviction`` or ``Creation``."""
    backoff_limit_count: int | None = None
    """After so many attempts the Workload is deactivated; by default never."""
    backoff_base_seconds: int = 60
    """Wait before the second attempt, in seconds; it doubles with each attempt."""
    backoff_max_seconds: int = 3600
    """Longest wait between two attempts, in seconds."""


class WaitForPodsReady(Section, frozen=True, kw_only=True):
    """Eviction of admitted workloads whose pods do not become ready.

    ``recovery_timeout`` of None means ``timeout``.
    """

    timeout: Duration = Duration(minutes=30)
    """How long the pods of an admitted Workload may take to be ready before it is evicted."""
    block_admission: bool = False
    """Whether nobody is admitted while an admitted Workload waits for its pods."""
    recovery_timeout: Duration | None = None
    """How long pods that were ready once may be unready; by default ``timeout``. Zero: any time."""
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    """When an evicted Workload is tried again."""

    @property
    def effective_recovery_timeout(self) -> timedelta:
        """How long pods that were ready once may be unready."""
        return self.timeout if self.recovery_timeout is None else self.recovery_timeout


class ClientConnection(Section, frozen=True, kw_only=True):
    """Ceiling of requests to the API server."""

    qps: float = 300.0
    """Requests per second to the API server, on average."""
    burst: int = 500
    """Requests that may be sent at once, beyond the average."""


class Integrations(Section, frozen=True, kw_only=True):
    """The job kinds that are managed."""

    frameworks: tuple[str, ...] = ("batch/job",)
    """The kinds of jobs that are queued, such as ``batch/job`` and ``jobset.x-k8s.io/jobset``."""
    external_frameworks: tuple[str, ...] = ()
    """Kinds whose jobs another controller queues, as ``Kind.version.group``."""
    label_keys_to_copy: tuple[str, ...] = ()
    """Keys of labels that are copied from a job to its Workload."""
    chargeback_label_keys: tuple[str, ...] = ()
    """Deviates: an extension of ours. Keys of labels that say who pays. They are copied to
    the Workload when it is created or gets another queue, and to the pods when the job starts. The
    value is that of the LocalQueue, or else of the job, so that users cannot have somebody else
    pay. Later changes of a LocalQueue's labels do not reach Workloads that exist."""


class MultiKueueExternalFramework(Section, frozen=True, kw_only=True):
    """A kind without a built-in adapter: ``Kind.version.group``."""

    name: str
    """A kind that is dispatched to workers without an adapter of its own, as
    ``Kind.version.group``."""


class ExecConfig(Section, frozen=True, kw_only=True):
    """An exec plugin that gives credentials, as in a kubeconfig."""

    command: str
    """Program that prints credentials."""
    args: tuple[str, ...] | None = None
    """Its arguments."""
    env: tuple[dict[str, str], ...] | None = None
    """Its further environment: a list of ``name`` and ``value``."""
    api_version: str
    """Version of the answer, such as ``client.authentication.k8s.io/v1``."""
    install_hint: str = ""
    """Advice that is shown if the program is missing."""
    provide_cluster_info: bool = False
    """Whether the program gets the address and CA of the cluster."""
    interactive_mode: str
    """``Never`` or ``IfAvailable``. ``Always`` is refused when it is used: there is no terminal."""


class AccessProvider(Section, frozen=True, kw_only=True):
    """Credentials for clusters of one ClusterProfile provider."""

    name: str
    """Name of the provider in the status of ClusterProfiles."""
    exec_config: ExecConfig
    """The program that gives credentials for its clusters."""


class ClusterProfile(Section, frozen=True, kw_only=True):
    """How ClusterProfiles become connections."""

    access_providers: tuple[AccessProvider, ...] = ()
    """The providers whose ClusterProfiles can be connected to."""
    credentials_providers: tuple[AccessProvider, ...] = ()
    """The old name of ``accessProviders``; only one of the two may be set."""


class IncrementalDispatcher(Section, frozen=True, kw_only=True):
    """How many clusters the incremental dispatcher adds in a round."""

    step_size: int = 3
    """So many clusters are added in a round."""


class DispatcherIsolation(Section, frozen=True, kw_only=True):
    """Deviates: an extension of ours. Where dispatchers run that are not built in."""

    mode: str = PROCESS
    """``Process``: a process per dispatcher; ``Thread``: the manager's own process."""
    memory: str = "1Gi"
    """Limit of the address space of such a process; 0: no limit."""


class MultiKueue(Section, frozen=True, kw_only=True):
    """Dispatch to worker clusters."""

    gc_interval: Duration = Duration(minutes=1)
    """Time between two searches for objects on workers that nobody needs any more; zero: none."""
    origin: str = names.DEFAULT_ORIGIN
    """Name of this manager on objects of workers. Managers that share a worker need different
    names."""
    worker_lost_timeout: Duration = Duration(minutes=15)
    """How long a worker that runs a job may be out of reach before the job is queued again."""
    dispatcher_name: str = names.DISPATCHER_ALL_AT_ONCE
    """The dispatcher, unless a profile is named, or a MultiKueueConfig has the annotation
    ``multiqueue.dev/dispatcher``."""
    external_frameworks: tuple[MultiKueueExternalFramework, ...] = ()
    """Kinds that are dispatched to workers without an adapter of their own."""
    cluster_profile: ClusterProfile | None = None
    """How ClusterProfiles become connections to workers."""
    incremental_dispatcher_config: IncrementalDispatcher | None = None
    """Settings of the incremental dispatcher."""
    dispatcher_arguments: dict[str, Any] = {}
    """Deviates: an extension of ours. Arguments of the dispatcher plugin, by name."""
    dispatcher_isolation: DispatcherIsolation = DispatcherIsolation()
    """Deviates: an extension of ours. Where dispatchers run that are not built in: in a
    process each by default."""
    dispatch_profile: str = ""
    """Deviates: an extension of ours. The DispatchProfile if no queue or config names one."""
    drain_period: Duration = Duration(seconds=6)
    """Deviates: an extension of ours. In a drain that names no rate, one job starts to move
    in each such period, on average."""
    drain_at_once: int = 4
    """Deviates: an extension of ours. So many jobs move at a time at most, in a drain that
    does not say it."""
    preemption_timeout: Duration = Duration(minutes=5)
    """Deviates: an extension of ours. With orchestrated preemption, the time that one worker has to
    preempt before another one may; it is fixed upstream (M-181)."""
    allowed_proxies: tuple[str, ...] = ()
    """Deviates: an extension of ours. The proxies that ``proxy-url`` of a worker's kubeconfig
    or ClusterProfile may name, as ``http://host:port`` or ``https://host:port``. By default none:
    whoever writes a kubeconfig could have the manager open connections anywhere. User names and
    passwords are allowed in the kubeconfig only. ``HTTPS_PROXY`` of the manager's own environment
    is used all the same."""


class FairSharing(Section, frozen=True, kw_only=True):
    """Fair sharing between ClusterQueues of a cohort."""

    preemption_strategies: tuple[str, ...]
    """When a Workload of another queue may be preempted: ``LessThanOrEqualToFinalShare`` and
    ``LessThanInitialShare``, in the order in which they are tried."""


BY_LOCAL_QUEUE, BY_OWNER = "LocalQueue", "Owner"


class AdmissionFairSharing(Section, frozen=True, kw_only=True):
    """Fair sharing between LocalQueues by decayed usage."""

    usage_half_life_time: Duration = Duration()
    """Time after which past usage counts half; zero: only present usage counts."""
    usage_sampling_interval: Duration = Duration(minutes=5)
    """Time between two updates of past usage."""
    resource_weights: dict[str, float] = {}
    """Weight of each resource in the usage; 1 for resources that are not named."""
    by: str = BY_LOCAL_QUEUE
    """Deviates: an extension of ours. Whose usage is compared: ``LocalQueue``, or ``Owner``: the
    LocalQueues of a ClusterQueue that have one owner count as one, with the largest of their
    weights. The owner is the label ``multiqueue.dev/owner`` of the Namespace, else its name."""


class Transformation(Section, frozen=True, kw_only=True):
    """Turns one requested resource into others before quota is counted."""

    input: str
    """The requested resource that is turned into others."""
    strategy: str = "Retain"
    """``Retain``: the input counts, too. ``Replace``: it does not."""
    multiply_by: str = ""
    """A resource whose requested amount the outputs are multiplied by."""
    outputs: dict[str, str | int | float] = {}
    """Amount of each resource that counts for one unit of the input."""


class DeviceSource(Section, frozen=True, kw_only=True):
    """A counter or a capacity of a device."""

    name: str
    """Name of the counter or capacity."""
    driver: str
    """Driver of the devices."""
    device_selector: str = ""
    """CEL expression that selects the devices; empty: all of the driver."""


class DeviceSourceChoice(Section, frozen=True, kw_only=True):
    """Exactly one of the two."""

    counter: DeviceSource | None = None
    """A counter that parts of a device consume."""
    capacity: DeviceSource | None = None
    """A capacity that claims of a shared device consume."""


class DeviceClassMapping(Section, frozen=True, kw_only=True):
    """Counts device classes as one resource."""

    name: str
    """The resource that quotas name."""
    device_class_names: tuple[str, ...]
    """The DeviceClasses whose devices count as this resource; 1 to 8."""
    sources: tuple[DeviceSourceChoice, ...] = ()
    """What of a device counts instead of its number."""


class Resources(Section, frozen=True, kw_only=True):
    """Which requests count against quota."""

    quota_check_strategy: str = "BlockUndeclared"
    """``BlockUndeclared``: a Workload that requests a resource without a quota waits.
    ``IgnoreUndeclared``: such resources do not count."""
    exclude_resource_prefixes: tuple[str, ...] = ()
    """Resources whose names begin with one of these do not count."""
    transformations: tuple[Transformation, ...] = ()
    """Resources that count as others; one entry for each input."""
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()
    """The resources that devices of DeviceClasses count as; 16 at most."""


class WorkloadRetention(Section, frozen=True, kw_only=True):
    """How long Workloads are kept; None means for ever."""

    after_finished: Duration | None = None
    """How long a Workload is kept after it finished; by default for ever."""
    after_deactivated_by_kueue: Duration | None = None
    """How long a Workload and its job are kept after the manager gave the Workload up; by default
    for ever."""


class ObjectRetentionPolicies(Section, frozen=True, kw_only=True):
    """How long our objects are kept."""

    workloads: WorkloadRetention | None = None
    """How long Workloads are kept."""


class VisibilityServer(Section, frozen=True, kw_only=True):
    """Where the aggregated API listens."""

    bind_address: str = ""
    """Address that the aggregated API listens on; empty: all."""
    bind_port: int = 8082
    """Port of the aggregated API."""


class DashboardAuth(Section, frozen=True, kw_only=True):
    """How readers of the dashboard say who they are."""

    mode: str = TOKEN
    """``Token``: a form takes a bearer token, and a TokenReview says whose it is. ``Proxy``: a
    proxy in front logs readers in, and passes the ID token of each on as ``Authorization: Bearer``.
    The API server has to trust the issuer of these tokens, and ``url`` is needed."""


class Dashboard(Section, frozen=True, kw_only=True):
    """The dashboard beside the manager. Each reader logs in, and has the reader's own rights."""

    bind_address: str = ""
    """Address that the dashboard listens on with TLS, such as ``:8444``; empty: there is none."""
    url: str = ""
    """Address that readers open, such as ``https://queue.example.com`` or
    ``https://example.com/queue``, if it is not that of the Service. Requests for other host names
    are refused. A proxy may strip the path or not."""
    auth: DashboardAuth = DashboardAuth()
    """How readers say who they are."""
    actions: bool = True
    """Whether readers can change what their own rights allow, such as hold a queue; else the pages
    have no buttons."""


class NotificationReceiver(Section, frozen=True, kw_only=True):
    """Where notifications about jobs are sent."""

    name: str
    """Its name in logs and metrics."""
    url_file: str
    """Path of a file with the URL: that of a chat is a secret, so mount one. It is read anew for
    each notification."""
    format: str = JSON
    """``JSON``, or ``Slack`` for a text in the form of Slack and of chats that are compatible."""
    key_file: str = ""
    """Path of a file with a key. With it each body is signed: the header X-Multiqueue-Signature is
    ``sha256=`` and its HMAC-SHA-256."""
    namespaces: tuple[str, ...] = ()
    """Namespaces whose jobs it is told about; empty: all."""


class Notifications(Section, frozen=True, kw_only=True):
    """Who is told what happens to jobs."""

    receivers: tuple[NotificationReceiver, ...] = ()
    """Where notifications are sent."""


class Traces(Section, frozen=True, kw_only=True):
    """Traces of Workloads for OpenTelemetry."""

    endpoint: str = ""
    """URL of a collector that takes OTLP over HTTP as JSON, with its path, such as
    ``http://127.0.0.1:4318/v1/traces``; empty: no traces. ``http`` only for this machine."""
    sample: float = 0.1
    """Share of the Workloads that have a trace. Those that fail or are evicted always have one."""
    headers_file: str = ""
    """Path of a file with headers for the collector, ``NAME: VALUE`` in each line: mount a Secret
    with it. It is read anew for each request."""


class UsagePrice(Section, frozen=True, kw_only=True):
    """What a device costs from a day on."""

    flavor: str
    """The ResourceFlavor; it need not exist any more."""
    valid_from: str = msgspec.field(name="from")
    """The first day (UTC) on which it costs that, such as ``2026-01-01``; until the next price of
    the flavor."""
    per_gpu_hour: float
    """Price of one device for one hour."""
    currency: str = ""
    """The unit of the price, such as ``EUR``. All prices have the same: they are added up."""


class Usage(Section, frozen=True, kw_only=True):
    """What ``multiqueue usage --price`` shows."""

    prices: tuple[UsagePrice, ...] = ()
    """Prices of devices by flavor."""


class Configuration(Section, frozen=True, kw_only=True):
    """The whole file.

    ``Configuration()`` holds the defaults; `load_configuration` reads and checks a file.
    """

    namespace: str = names.DEFAULT_NAMESPACE
    """Namespace of the manager, with its Lease, its Secrets and the kubeconfigs of workers."""
    webhook: Webhook = Webhook()
    """Where the webhook server listens."""
    leader_election: LeaderElection = LeaderElection()
    """The Lease that makes one replica the active one."""
    metrics: Metrics = Metrics()
    """The metrics endpoint."""
    health: Health = Health()
    """The probe endpoints."""
    pprof_bind_address: str = ""
    """Address of Go's profiler in Kueue."""
    controller: Controller = Controller()
    """How reconcilers run."""
    tls: Tls = Tls()
    """TLS of all our servers."""
    manage_jobs_without_queue_name: bool = False
    """Whether jobs without a queue are suspended, too, until they get one."""
    managed_jobs_namespace_selector: LabelSelector | None = None
    """Labels of the namespaces whose jobs are managed; by default all but ``kube-system`` and that
    of the manager."""
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    """Our own CA and serving certificate."""
    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    """None: off, by the gate DisableWaitForPodsReady or by a v1beta1 file."""
    client_connection: ClientConnection = ClientConnection()
    """Ceiling of requests to the API server."""
    integrations: Integrations = Integrations()
    """The job kinds that are managed."""
    unsupported_kinds: str = WARN
    """Deviates: an extension of ours. How to treat an object that names a queue, if its kind is not
    queued yet: ``Warn`` lets it run, outside of every quota; ``Deny`` refuses it. Objects that
    a queued Job made are not affected, and objects that have the label already can be changed.
    Nothing is refused while the manager is away."""
    multi_kueue: MultiKueue = MultiKueue()
    """Dispatch to worker clusters."""
    fair_sharing: FairSharing | None = None
    """Fair sharing between ClusterQueues of a cohort; off without this section."""
    admission_fair_sharing: AdmissionFairSharing | None = None
    """Fair sharing between LocalQueues; off without this section."""
    resources: Resources = Resources()
    """Which requests count against quota."""
    feature_gates: dict[str, bool] = {}
    """Feature gates that are not at their default, by name."""
    object_retention_policies: ObjectRetentionPolicies = ObjectRetentionPolicies()
    """How long our objects are kept."""
    visibility_server: VisibilityServer = VisibilityServer()
    """Where the aggregated API listens."""
    dashboard: Dashboard = Dashboard()
    """Deviates: an extension of ours. The dashboard beside the manager; off by default."""
    usage: Usage = Usage()
    """Deviates: an extension of ours. What devices cost."""
    traces: Traces = Traces()
    """Deviates: an extension of ours. Where traces of Workloads are sent; off by default."""
    notifications: Notifications = Notifications()
    """Deviates: an extension of ours. Who is told what happens to jobs that have the annotation
    ``multiqueue.dev/notify``; by default nobody."""

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
