"""MultiKueueCluster and MultiKueueConfig: the workers, and which of them a check may use."""

from typing import Annotated, ClassVar

from multiqueue.api.markers import SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct


class KubeConfig(Struct, frozen=True, kw_only=True):
    """Where the kubeconfig of a worker is kept."""

    location: Annotated[
        str,
        described(
            "Name of a Secret in the manager's namespace with the key kubeconfig, or a file path.",
            required=True,
            minLength=1,
            maxLength=256,
        ),
    ] = ""
    location_type: Annotated[
        str,
        described("What location is.", enum=["Secret", "Path"], default="Secret"),
    ] = "Secret"


class ClusterProfileReference(Struct, frozen=True, kw_only=True):
    """A ClusterProfile in the manager's namespace."""

    name: Annotated[
        str, described("Name of the ClusterProfile.", required=True, minLength=1, maxLength=256)
    ] = ""


class ClusterSource(Struct, frozen=True, kw_only=True):
    """Exactly one way to reach a worker."""

    kube_config: Annotated[KubeConfig | None, described("A kubeconfig in a Secret or a file.")] = (
        None
    )
    cluster_profile_ref: Annotated[
        ClusterProfileReference | None, described("A ClusterProfile of a fleet.")
    ] = None


class MultiKueueClusterSpec(Struct, frozen=True, kw_only=True):
    """How a worker is reached."""

    cluster_source: Annotated[
        ClusterSource,
        described(
            "Exactly one of kubeConfig and clusterProfileRef.",
            required=True,
            rules=(
                SchemaRule(
                    "(has(self.kubeConfig) ? 1 : 0) + (has(self.clusterProfileRef) ? 1 : 0) == 1",
                    "exactly one of kubeConfig and clusterProfileRef is required",
                ),
            ),
        ),
    ] = ClusterSource()


class MultiKueueClusterStatus(Struct, frozen=True, kw_only=True):
    """Observed state of a worker."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class MultiKueueCluster(Struct, frozen=True, kw_only=True):
    """One worker cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[MultiKueueClusterSpec, described("How the worker is reached.")] = (
        MultiKueueClusterSpec()
    )
    status: Annotated[MultiKueueClusterStatus, described("Observed state.")] = (
        MultiKueueClusterStatus()
    )


class MultiKueueConfigSpec(Struct, frozen=True, kw_only=True):
    """Workers in order of preference."""

    clusters: Annotated[
        tuple[Annotated[str, described("", maxLength=256)], ...],
        described(
            "Names of MultiKueueClusters, the preferred ones first.",
            required=True,
            minItems=1,
            maxItems=20,
            rules=(
                SchemaRule("self.all(x, self.exists_one(y, x == y))", "clusters must be unique"),
            ),
        ),
    ] = ()
    quota_management: Annotated[
        str | None,
        described(
            "Manual (the default): the manager's quota is set by people. Automated: derived from "
            "the workers.",
            enum=["Manual", "Automated"],
        ),
    ] = None


class MultiKueueConfig(Struct, frozen=True, kw_only=True):
    """The workers that a MultiKueue AdmissionCheck dispatches to."""

    rules: ClassVar = ()

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[MultiKueueConfigSpec, described("The workers.")] = MultiKueueConfigSpec()
