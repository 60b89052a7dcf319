"""ResourceFlavor: one kind of hardware."""

from __future__ import annotations

from multiqueue.api.v1beta2.meta import ObjectMeta, Struct, Taint, Toleration


class ResourceFlavorSpec(Struct, frozen=True, kw_only=True):
    """What the nodes of this flavor look like."""

    node_labels: dict[str, str] = {}
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class ResourceFlavor(Struct, frozen=True, kw_only=True):
    """One kind of hardware, such as nodes with H100 GPUs."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()
