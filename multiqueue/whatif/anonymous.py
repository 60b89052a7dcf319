"""Replaces the names in a snapshot, so that it can be shown to others. Pure.

Equal names stay equal, and the order of names stays, because ties are broken by name. So a replay
decides the same. Names of resources, hardware labels, quantities and times stay.

Deviates: the design names a keyed hash; a hash would change the order, and with it decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from multiqueue.api.conditions import DISRUPTED
from multiqueue.api.disruptions import parse_stops, say_stops
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Topology, WorkloadStatus
from multiqueue.model.topology import HOSTNAME, TopologyDomain
from multiqueue.model.topology_encoding import decode_topology, encode_topology
from multiqueue.whatif.snapshot import MANAGER, Snapshot

Json = dict[str, Any]
_TOKEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# fmt: off
_WORDS = frozenset({
    "True", "False", "Unknown", "true", "false", "Pending", "Ready", "Retry", "Rejected",
    "Open", "Closed", "Hold", "HoldAndDrain", "None", "Never", "Any", "LowerPriority",
    "LowerOrNewerEqualPriority", "Always", "Preempt", "TryNextFlavor", "Borrow",
    "BestEffortFIFO", "StrictFIFO", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt",
    "Equal", "NoSchedule", "NoExecute", "PreferNoSchedule", "main",
})
# fmt: on
"""Values of the API that may also be names; they tell nothing about anybody."""
_RESOURCE_MAPS = ("requests", "limits", "allocatable", "resourceUsage", "podFixed")
_FREE_TEXT = ("labels", "annotations")
_FIXED = frozenset({"apiVersion", "kind", "type", "reason", "controllerName", "state", "status"})
"""Fields with words of the API."""


def anonymize(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with other names; notes are left out, because they are free text."""
    kept = _WORDS | set(_list_resources(snapshot))
    names = sorted(set(_list_names(snapshot)) - kept - {""})
    width = len(str(len(names)))
    made = {name: f"n{rank:0{width}}" for rank, name in enumerate(names, start=1)}
    result = replace(snapshot, clusters={}, notes=("names are replaced",))
    for cluster, by_kind in snapshot.clusters.items():
        for objects in by_kind.values():
            for obj in objects.values():
                renamed = _rename(obj, made)
                _rename_places(renamed, obj, made)
                _rename_stops(renamed, made)
                result.put(renamed, made.get(cluster, cluster))
    return result


def _rename_stops(obj: Json, made: Mapping[str, str]) -> None:
    """Rename who a Workload was stopped for, in place; names that are gone are left out."""
    status = obj.get("status", {})
    if obj["kind"] != "Workload" or not any(
        each.get("type") == DISRUPTED for each in status.get("conditions", ())
    ):
        return
    known = decode(WorkloadStatus, {"conditions": status["conditions"]})
    stops = [
        stop._replace(
            cluster_queue=made.get(stop.cluster_queue, "-"),
            namespace=made.get(stop.namespace, ""),
        )
        for stop in parse_stops(known.conditions)
    ]
    for each in status["conditions"]:
        if each["type"] == DISRUPTED:
            each["message"] = say_stops(stops)


def _list_names(snapshot: Snapshot) -> Iterator[str]:
    levels = {HOSTNAME} | {
        level.node_label
        for obj in snapshot.of("Topology").values()
        for level in decode(Topology, obj).spec.levels
    }
    for cluster, by_kind in snapshot.clusters.items():
        if cluster != MANAGER:
            yield cluster
        for kind, objects in by_kind.items():
            for obj in objects.values():
                yield from _list_names_of(kind, obj, levels)


def _list_names_of(kind: str, obj: Json, levels: set[str]) -> Iterator[str]:
    metadata = obj["metadata"]
    yield metadata["name"]
    yield metadata.get("namespace", "")
    for owner in metadata.get("ownerReferences", ()):
        yield owner.get("name", "")
    labels = metadata.get("labels", {})
    if kind == "Node":
        yield from (value for label, value in labels.items() if label in levels)
    elif kind != "ResourceFlavor":
        yield from labels.values()
    spec = obj.get("spec", {})
    yield from (each.get("name", "") for each in spec.get("budgets", ()))
    yield from (spec.get(field) or "" for field in ("cohortName", "parentName", "queueName"))


def _list_resources(snapshot: Snapshot) -> Iterator[str]:
    for by_kind in snapshot.clusters.values():
        for kind in ("ClusterQueue", "Cohort", "Workload", "Node"):
            for obj in by_kind.get(kind, {}).values():
                yield from _list_resource_keys(obj)


def _list_resource_keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value.get("coveredResources") or ()
        for key, child in value.items():
            if key in _RESOURCE_MAPS and isinstance(child, Mapping):
                yield from child
            else:
                yield from _list_resource_keys(child)
    elif isinstance(value, list):
        for child in value:
            yield from _list_resource_keys(child)


def _rename(value: Any, made: Mapping[str, str], *, is_text: bool = False) -> Any:
    """Replace strings that are a name, and names within labels and annotations."""
    if isinstance(value, Mapping):
        return {
            key: child
            if key in _FIXED and isinstance(child, str)
            else _rename(child, made, is_text=is_text or key in _FREE_TEXT)
            for key, child in value.items()
        }
    if isinstance(value, list):
        return [_rename(child, made, is_text=is_text) for child in value]
    if not isinstance(value, str):
        return value
    if is_text:
        return _TOKEN.sub(lambda found: made.get(found[0], found[0]), value)
    return made.get(value, value)


def _rename_places(renamed: Json, original: Json, made: Mapping[str, str]) -> None:
    """Replace the names of nodes and racks in assignments, which are packed there."""
    if original["kind"] != "Workload":
        return
    admission = original["status"].get("admission") or {}
    for index, assignment in enumerate(admission.get("podSetAssignments", ())):
        wire = assignment.get("topologyAssignment")
        if not wire:
            continue
        places = decode_topology(wire)
        domains = tuple(
            TopologyDomain(
                values=tuple(made.get(value, value) for value in domain.values), count=domain.count
            )
            for domain in places.domains
        )
        target = renamed["status"]["admission"]["podSetAssignments"][index]
        target["topologyAssignment"] = encode_topology(replace(places, domains=domains))
