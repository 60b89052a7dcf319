"""MultiKueueCluster and MultiKueueConfig: the workers, and which of them a check may use."""

from __future__ import annotations

from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct


class KubeConfig(Struct, frozen=True, kw_only=True):
    """Where the kubeconfig of a worker is kept."""

    location: str = ""
    location_type: str = "Secret"


class ClusterProfileReference(Struct, frozen=True, kw_only=True):
    """A ClusterProfile in the manager's namespace."""

    name: str = ""


class ClusterSource(Struct, frozen=True, kw_only=True):
    """Exactly one way to reach a worker."""

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Struct, frozen=True, kw_only=True):
    """How a worker is reached."""

    cluster_source: ClusterSource = ClusterSource()


class MultiKueueClusterStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a worker."""

    conditions: tuple[Condition, ...] = ()


class MultiKueueCluster(Struct, frozen=True, kw_only=True):
    """One worker cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


class MultiKueueConfigSpec(Struct, frozen=True, kw_only=True):
    """Workers in order of preference."""

    clusters: tuple[str, ...] = ()
    quota_management: str | None = None


class MultiKueueConfig(Struct, frozen=True, kw_only=True):
    """The workers that a MultiKueue AdmissionCheck dispatches to."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()
