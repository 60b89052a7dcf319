"""Defaults and rules of ResourceFlavors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from multiqueue.api.config.gates import Gates
from multiqueue.api.names import RESOURCE_IN_USE
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, invalid
from multiqueue.api.validation.names import validate_labels
from multiqueue.api.validation.normalize import add_finalizer
from multiqueue.api.validation.scheduling import validate_taints, validate_tolerations


def default_resource_flavor(obj: Object) -> dict[str, Any]:
    """Return the object with the finalizer that keeps it while a ClusterQueue uses it."""
    result = copy.deepcopy(dict(obj))
    add_finalizer(result, RESOURCE_IN_USE)
    if result.get("spec") is None:
        result["spec"] = {}
    return result


def validate_resource_flavor_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a ResourceFlavor."""
    return list(_validate(mapping(obj, "spec")))


def validate_resource_flavor_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of an update; the CRD ensures that its topology stays."""
    return validate_resource_flavor_create(new, gates)


def _validate(spec: Object) -> Iterator[FieldError]:
    yield from validate_labels(spec.get("nodeLabels"), "spec.nodeLabels")
    yield from validate_taints(spec.get("nodeTaints"), "spec.nodeTaints")
    yield from validate_tolerations(spec.get("tolerations"), "spec.tolerations")
    if spec.get("topologyName") is not None and not mapping(spec, "nodeLabels"):
        yield invalid(
            "spec.nodeLabels", {}, "at least one nodeLabel is required when topologyName is set"
        )
