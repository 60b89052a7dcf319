"""Rules of pod sets and of the pod templates in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multiqueue.api.config.gates import Gate, Gates
from multiqueue.api.names import ELASTIC_JOB
from multiqueue.api.validation.access import Object, items, mapping, number
from multiqueue.api.validation.field_error import FieldError, forbidden, invalid, required
from multiqueue.api.validation.names import validate_annotations, validate_labels
from multiqueue.lib.quantity import QuantityError, parse_quantity

PATH = "spec.podSets"


def is_elastic(obj: Object) -> bool:
    """Whether a job or Workload may change its size while it runs (E-165)."""
    return mapping(obj, "metadata", "annotations").get(ELASTIC_JOB) == "true"


def validate_pod_sets(obj: Object, gates: Gates) -> Iterator[FieldError]:
    """Check the pod sets of a Workload."""
    with_minimum = 0
    for i, pod_set in items(mapping(obj, "spec").get("podSets")):
        path = f"{PATH}[{i}]"
        if pod_set.get("minCount") is not None:
            with_minimum += 1
            yield from _minimum(pod_set, f"{path}.minCount", elastic=is_elastic(obj))
        yield from validate_pod_template(pod_set.get("template"), f"{path}.template", gates)
        if gates.enabled(Gate.TAS_VALIDATE_WORKLOAD_SLICE_SIZE):
            yield from validate_slices(
                mapping(pod_set, "topologyRequest"), f"{path}.topologyRequest"
            )
    if with_minimum > 1:
        yield invalid(PATH, with_minimum, "at most one podSet can use minCount")


def _minimum(pod_set: Object, path: str, *, elastic: bool) -> Iterator[FieldError]:
    minimum, count = number(pod_set["minCount"]), number(pod_set.get("count"), 1)
    if elastic:
        yield forbidden(path, "elastic jobs cannot use partial admission")
    if not 1 <= minimum <= count:
        yield invalid(path, minimum, "minCount should be positive and less or equal to count")


def validate_slices(request: Object, path: str) -> Iterator[FieldError]:
    """Check that slice level and size come together, or as constraints."""
    level, size = request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize")
    if request.get("podsetSliceRequiredTopologyConstraints") and (level or size is not None):
        yield forbidden(
            f"{path}.podsetSliceRequiredTopologyConstraints",
            "not together with podSetSliceRequiredTopology and podSetSliceSize",
        )
    if level and size is None:
        yield required(f"{path}.podSetSliceSize", "must be set with podSetSliceRequiredTopology")
    if size is not None and not level:
        yield required(f"{path}.podSetSliceRequiredTopology", "must be set with podSetSliceSize")
    if size is not None and number(size) <= 0:
        yield invalid(f"{path}.podSetSliceSize", size, "must be greater than 0")


def validate_pod_template(template: Any, path: str, gates: Gates) -> Iterator[FieldError]:
    """Check labels, annotations and resources of a PodTemplateSpec."""
    if gates.enabled(Gate.WORKLOAD_VALIDATION_FOR_POD_SET_METADATA):
        metadata = mapping(template, "metadata")
        yield from validate_labels(metadata.get("labels"), f"{path}.metadata.labels")
        yield from validate_annotations(metadata.get("annotations"), f"{path}.metadata.annotations")
    spec = mapping(template, "spec")
    may_be_negative = not gates.enabled(Gate.WORKLOAD_VALIDATE_RESOURCES_ARE_NON_NEGATIVE)
    for at, resources in iterate_resources(spec, f"{path}.spec"):
        for kind in ("requests", "limits"):
            for name, value in mapping(resources, kind).items():
                yield from _resource(f"{at}.{kind}[{name}]", name, value, may_be_negative)
    for name, value in mapping(spec, "overhead").items():
        yield from _resource(f"{path}.spec.overhead[{name}]", name, value, may_be_negative)


def iterate_resources(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Yield (path, resources) of the pod itself and of each container that can use quota."""
    for field in ("initContainers", "containers"):
        for i, container in items(spec.get(field)):
            yield f"{path}.{field}[{i}].resources", mapping(container, "resources")
    yield f"{path}.resources", mapping(spec, "resources")


def _resource(path: str, name: str, value: Any, may_be_negative: bool) -> Iterator[FieldError]:  # noqa: FBT001
    if name == "pods":
        yield invalid(path, name, "the key is reserved for internal Kueue use")
    try:
        parsed = parse_quantity(value)
    except QuantityError as error:
        yield invalid(path, value, str(error))
        return
    if parsed.sign < 0 and not may_be_negative:
        yield invalid(path, value, "must be greater than or equal to 0")
