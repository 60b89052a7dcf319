"""The ResourceFlavors with their GPUs and the queues that give quota of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from multiqueue.api.serde import encode

if TYPE_CHECKING:
    from multiqueue.cli.queue_objects import QueueObjects

Json = dict[str, Any]

HEADERS = ("FLAVOR", "GPUS", "USED", "FREE")
WIDE_HEADERS = (*HEADERS, "NODE LABELS", "NODE TAINTS", "TOPOLOGY", "CLUSTERQUEUES")
_FIGURES = (("gpus", "total"), ("used", "used"), ("free", "free"))


def list_flavors(objects: QueueObjects, figures: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return each flavor, by name.

    Args:
        objects: The ResourceFlavors and ClusterQueues.
        figures: ``flavor``, ``total``, ``used`` and ``free`` of each accelerator of a flavor. A
            flavor of which there is none has no figures.
    """
    known = list(figures)
    queues: dict[str, set[str]] = {}
    for name, queue in objects.cluster_queues.items():
        for group in queue.spec.resource_groups:
            for quota in group.flavors:
                queues.setdefault(quota.name, set()).add(name)
    names = {*objects.flavors, *queues, *(each["flavor"] for each in known)}
    return [
        {
            "name": name,
            **_sum([each for each in known if each["flavor"] == name]),
            **_describe_nodes(objects, name),
            "clusterQueues": sorted(queues.get(name, ())),
        }
        for name in sorted(names)
    ]


def _sum(figures: list[Mapping[str, Any]]) -> Json:
    return {
        field: sum(each[figure] for each in figures) if figures else None
        for field, figure in _FIGURES
    }


def _describe_nodes(objects: QueueObjects, name: str) -> Json:
    """Return what the nodes look like; nothing is known of a flavor that does not exist."""
    found = objects.flavors.get(name)
    return {
        "exists": found is not None,
        "nodeLabels": dict(found.spec.node_labels) if found is not None else {},
        "nodeTaints": [encode(each) for each in found.spec.node_taints] if found else [],
        "topologyName": found.spec.topology_name if found is not None else None,
    }


def list_flavor_rows(flavors: Iterable[Json]) -> list[list[Any]]:
    """Return a row of `WIDE_HEADERS` for each flavor."""
    return [
        [
            each["name"],
            *(each[field] for field, _ in _FIGURES),
            ", ".join(f"{key}={value}" for key, value in sorted(each["nodeLabels"].items())),
            ", ".join(map(_describe_taint, each["nodeTaints"])),
            each["topologyName"],
            ", ".join(each["clusterQueues"]),
        ]
        for each in flavors
    ]


def _describe_taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
