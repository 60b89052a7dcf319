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
    """Read the topology annotations of a pod template; None if there are none.

    Raises:
        InvalidJobError: a value is invalid.
    """
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    required = annotations.get(names.PODSET_REQUIRED_TOPOLOGY)
    preferred = annotations.get(names.PODSET_PREFERRED_TOPOLOGY)
    unconstrained = annotations.get(names.PODSET_UNCONSTRAINED_TOPOLOGY)
    slice_topology = annotations.get(names.PODSET_SLICE_REQUIRED_TOPOLOGY)
    constraints = _constraints(annotations.get(names.PODSET_SLICE_CONSTRAINTS))
    if not (required or preferred or unconstrained or slice_topology or constraints):
        return None
    return PodSetTopologyRequest(
        required=required,
        preferred=preferred,
        unconstrained=_boolean(unconstrained) if unconstrained is not None else None,
        pod_index_label=pod_index_label,
        sub_group_index_label=sub_group_index_label,
        sub_group_count=sub_group_count,
        pod_set_group_name=annotations.get(names.PODSET_GROUP_NAME),
        pod_set_slice_required_topology=slice_topology,
        pod_set_slice_size=_size(annotations.get(names.PODSET_SLICE_SIZE)),
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
