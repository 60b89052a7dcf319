"""ResourceFlavor: one kind of hardware."""

from typing import Annotated, ClassVar

from multiqueue.api.markers import REFERENCE, SchemaRule, described
from multiqueue.api.v1beta2.meta import TOLERATION_RULES, ObjectMeta, Struct, Taint, Toleration


class ResourceFlavorSpec(Struct, frozen=True, kw_only=True):
    """What the nodes of this flavor look like."""

    rules: ClassVar = (
        SchemaRule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
            "at least one nodeLabel is required when topologyName is set",
        ),
        SchemaRule(
            "!has(oldSelf.topologyName) || "
            "(has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable once it is set",
        ),
    )

    node_labels: Annotated[
        dict[str, str],
        described(
            "Labels of the nodes of this flavor. Jobs that get the flavor are bound to them with a "
            "node selector; jobs whose own selector or affinity disagrees do not fit.",
            maxProperties=8,
            **{"x-kubernetes-map-type": "atomic"},
        ),
    ] = {}
    node_taints: Annotated[
        tuple[Taint, ...],
        described(
            "Taints of the nodes of this flavor; only jobs that tolerate them may use it.",
            maxItems=8,
            rules=(
                SchemaRule(
                    "self.all(x, x.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
                    "supported taint effects: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'",
                ),
            ),
        ),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...],
        described(
            "Tolerations that jobs get together with the flavor.",
            maxItems=8,
            rules=TOLERATION_RULES,
        ),
    ] = ()
    topology_name: Annotated[
        str | None,
        described(
            "Topology of these nodes; turns on placement by rack, block and so on.", **REFERENCE
        ),
    ] = None


class ResourceFlavor(Struct, frozen=True, kw_only=True):
    """One kind of hardware, such as nodes with H100 GPUs. ClusterQueues give quota per flavor."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ResourceFlavorSpec, described("What the nodes of this flavor look like.")] = (
        ResourceFlavorSpec()
    )
