"""AdmissionCheck, Topology and ProvisioningRequestConfig."""

from typing import Annotated

from multiqueue.api.markers import (
    LABEL_KEY_PATTERN,
    LABEL_PATTERN,
    SUBDOMAIN_PATTERN,
    SchemaRule,
    described,
)
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct

CONDITIONS = described("What is known about the object.", list_map_keys=("type",), maxItems=16)
HOSTNAME_LABEL = "kubernetes.io/hostname"


class AdmissionCheckParametersReference(Struct, frozen=True, kw_only=True):
    """The object that configures a check."""

    api_group: Annotated[
        str,
        described("Group of the object.", required=True, maxLength=253, pattern=SUBDOMAIN_PATTERN),
    ] = ""
    kind: Annotated[
        str,
        described(
            "Kind of the object.",
            required=True,
            maxLength=63,
            pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$",
        ),
    ] = ""
    name: Annotated[
        str, described("Name of the object.", required=True, maxLength=63, pattern=LABEL_PATTERN)
    ] = ""


class AdmissionCheckSpec(Struct, frozen=True, kw_only=True):
    """Who decides the check, and with which parameters."""

    controller_name: Annotated[
        str,
        described(
            "Controller that decides the check, such as kueue.x-k8s.io/multikueue. Immutable.",
            required=True,
            minLength=1,
            maxLength=253,
            rules=(SchemaRule("self == oldSelf", "field is immutable"),),
        ),
    ] = ""
    parameters: Annotated[
        AdmissionCheckParametersReference | None,
        described("The object that configures the check; which kind depends on the controller."),
    ] = None


class AdmissionCheckStatus(Struct, frozen=True, kw_only=True):
    """Observed state of an AdmissionCheck."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class AdmissionCheck(Struct, frozen=True, kw_only=True):
    """A condition beside quota that a Workload must meet before it is admitted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AdmissionCheckSpec, described("Who decides the check.")] = AdmissionCheckSpec()
    status: Annotated[AdmissionCheckStatus, described("Observed state.")] = AdmissionCheckStatus()


class TopologyLevel(Struct, frozen=True, kw_only=True):
    """One level of a data centre."""

    node_label: Annotated[
        str,
        described(
            "Node label whose values name the domains of this level, such as a rack label.",
            required=True,
            minLength=1,
            maxLength=316,
            pattern=LABEL_KEY_PATTERN,
        ),
    ]


class TopologySpec(Struct, frozen=True, kw_only=True):
    """Levels from the widest to the narrowest."""

    levels: Annotated[
        tuple[TopologyLevel, ...],
        described(
            "Levels from the widest to the narrowest. The host name may only be the last one, and "
            "the list can change only while it is.",
            required=True,
            minItems=1,
            maxItems=16,
            rules=(
                SchemaRule(
                    "size(self.filter(i, size(self.filter(j, j.nodeLabel == i.nodeLabel)) > "
                    "1)) == 0",
                    "must be unique",
                ),
                SchemaRule(
                    "size(self.filter(i, i.nodeLabel == 'kubernetes.io/hostname')) == 0 || "
                    "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
                    "the kubernetes.io/hostname label can only be used at the lowest level of "
                    "topology",
                ),
                SchemaRule(
                    "self == oldSelf || "
                    "(self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname' && "
                    "oldSelf[size(oldSelf) - 1].nodeLabel == 'kubernetes.io/hostname')",
                    "levels can only change while kubernetes.io/hostname is the lowest level",
                ),
            ),
        ),
    ] = ()


class Topology(Struct, frozen=True, kw_only=True):
    """How nodes are grouped into racks, blocks and so on."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[TopologySpec, described("The levels.")] = TopologySpec()


class ProvisioningRequestRetryStrategy(Struct, frozen=True, kw_only=True):
    """When a failed ProvisioningRequest is tried again."""

    backoff_limit_count: Annotated[
        int | None, described("How often it is tried again.", format="int32", default=3)
    ] = 3
    backoff_base_seconds: Annotated[
        int | None, described("First pause; each later one doubles.", format="int32", default=60)
    ] = 60
    backoff_max_seconds: Annotated[
        int | None, described("Longest pause.", format="int32", default=1800)
    ] = 1800


class ProvisioningRequestNodeSelectorUpdate(Struct, frozen=True, kw_only=True):
    """A node selector whose value the provisioning class gives."""

    key: Annotated[
        str,
        described(
            "Key of the node selector.",
            required=True,
            minLength=1,
            maxLength=317,
            pattern=LABEL_KEY_PATTERN,
        ),
    ] = ""
    value_from_provisioning_class_detail: Annotated[
        str,
        described(
            "Key in the details of the ProvisioningRequest.",
            required=True,
            minLength=1,
            maxLength=32_768,
        ),
    ] = ""


class ProvisioningRequestPodSetUpdates(Struct, frozen=True, kw_only=True):
    """What a pod set gets from a successful ProvisioningRequest."""

    node_selector: Annotated[
        tuple[ProvisioningRequestNodeSelectorUpdate, ...],
        described("Node selectors to add.", list_map_keys=("key",), maxItems=8),
    ] = ()


class ProvisioningRequestConfigSpec(Struct, frozen=True, kw_only=True):
    """What a ProvisioningRequest looks like."""

    provisioning_class_name: Annotated[
        str,
        described(
            "Provisioning class to ask.",
            required=True,
            maxLength=253,
            pattern=SUBDOMAIN_PATTERN,
        ),
    ] = ""
    parameters: Annotated[
        dict[str, Annotated[str, described("", maxLength=255)]],
        described("Parameters of the class.", maxProperties=100),
    ] = {}
    managed_resources: Annotated[
        tuple[str, ...],
        described(
            "Only pod sets that request one of these are provisioned; empty means all.",
            list_type="set",
            maxItems=100,
        ),
    ] = ()
    retry_strategy: Annotated[
        ProvisioningRequestRetryStrategy | None,
        described(
            "When a failed request is tried again.",
            default={
                "backoffBaseSeconds": 60,
                "backoffLimitCount": 3,
                "backoffMaxSeconds": 1800,
            },
        ),
    ] = None
    pod_set_updates: Annotated[
        ProvisioningRequestPodSetUpdates | None,
        described("What a pod set gets from a successful request."),
    ] = None
    pod_set_merge_policy: Annotated[
        str | None,
        described(
            "Which pod sets may share one pod template in the request.",
            enum=["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"],
        ),
    ] = None


class ProvisioningRequestConfig(Struct, frozen=True, kw_only=True):
    """Parameters of an AdmissionCheck that asks an autoscaler for capacity first."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ProvisioningRequestConfigSpec, described("What the requests look like.")] = (
        ProvisioningRequestConfigSpec()
    )
