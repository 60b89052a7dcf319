"""Topology requests of a pod template: annotations into the typed request of a pod set. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.api.v1beta2 import PodSetTopologyRequest, SliceConstraint
from multiqueue.api.validation.access import boolean
from multiqueue.jobs.framework.integration import InvalidJobError


def build_topology_request(
    template: Mapping[str, Any],
    *,
    pod_index_label: str | None = None,
    sub_group_index_label: str | None = None,
    sub_group_count: int | None = None,
) -> PodSetTopologyRequest | None:
    """Read the topology annotations of a pod template (J-79).

    None if there are none, and the kind names no label of its pods. Otherwise pods can be told
    apart, which matters if the queue implies a topology.

    Raises:
        InvalidJobError: a value is invalid.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    required = annotations.get(names.PODSET_REQUIRED_TOPOLOGY)
    preferred = annotations.get(names.PODSET_PREFERRED_TOPOLOGY)
    unconstrained = annotations.get(names.PODSET_UNCONSTRAINED_TOPOLOGY)
    constraints = _constraints(annotations.get(names.PODSET_SLICE_CONSTRAINTS))
    slice_topology = annotations.get(names.PODSET_SLICE_REQUIRED_TOPOLOGY)
    slice_size = _size(annotations.get(names.PODSET_SLICE_SIZE))
    if constraints or slice_topology is None or slice_size is None:
        slice_topology = slice_size = None
    is_labelled = pod_index_label or sub_group_index_label or sub_group_count is not None
    is_placed = required or preferred or unconstrained or slice_topology or constraints
    if not (is_placed or is_labelled):
        return None
    return PodSetTopologyRequest(
        required=required,
        preferred=preferred,
        unconstrained=_boolean(unconstrained) if unconstrained is not None else None,
        pod_index_label=pod_index_label,
        sub_group_index_label=sub_group_index_label,
        sub_group_count=sub_group_count,
        pod_set_group_name=annotations.get(names.PODSET_GROUP_NAME)
        if required or preferred
        else None,
        pod_set_slice_required_topology=slice_topology,
        pod_set_slice_size=slice_size,
        podset_slice_required_topology_constraints=constraints,
    )


def _boolean(text: str) -> bool:
    value = boolean(text)
    if value is None:
        raise InvalidJobError(
            f'annotation {names.PODSET_UNCONSTRAINED_TOPOLOGY}: "{text}" is neither true nor false'
        )
    return value


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidJobError(
            f'annotation {names.PODSET_SLICE_SIZE}: "{text}" is not a whole number'
        ) from None


def _constraints(text: str | None) -> tuple[SliceConstraint, ...]:
    if text is None:
        return ()
    try:
        return tuple(
            SliceConstraint(topology=str(item["topology"]), size=int(item["size"]))
            for item in orjson.loads(text)
        )
    except (ValueError, TypeError, KeyError):
        raise InvalidJobError(
            f"annotation {names.PODSET_SLICE_CONSTRAINTS}: expected a JSON list of"
            ' {"topology": ..., "size": ...}'
        ) from None
