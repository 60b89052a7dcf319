"""Rules of the smaller kinds: LocalQueue, AdmissionCheck, Topology and the MultiKueue kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from multiqueue.api.config.gates import Gates
from multiqueue.api.markers import LABEL_KEY_PATTERN
from multiqueue.api.names import GROUP, MULTIKUEUE_CONTROLLER
from multiqueue.api.v1beta2.admission_check import HOSTNAME_LABEL
from multiqueue.api.validation.access import Object, items, mapping, strings, text
from multiqueue.api.validation.cluster_constraints import (
    OF_CLUSTERS,
    OF_CONFIGS,
    OF_QUEUES,
    validate_annotations,
)
from multiqueue.api.validation.field_error import (
    FieldError,
    duplicate,
    invalid,
    required,
)
from multiqueue.api.validation.names import check_subdomain
from multiqueue.api.validation.quota import validate_weight

MAX_CONTROLLER_NAME = 253
_CONTROLLER_NAME = f"must have 1 to {MAX_CONTROLLER_NAME} characters; v1beta2 cannot store others"


def validate_local_queue_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a LocalQueue."""
    spec = mapping(obj, "spec")
    name = spec.get("clusterQueue")
    errors = [*validate_weight(spec), *validate_annotations(obj, OF_QUEUES)]
    if isinstance(name, str):
        errors.extend(invalid("spec.clusterQueue", name, m) for m in check_subdomain(name))
    return errors


def validate_local_queue_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of an update; the CRD ensures that its ClusterQueue stays."""
    return validate_local_queue_create(new, gates)


def validate_admission_check_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with an AdmissionCheck."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return []
    name = spec.get("controllerName")
    if name is None:
        return [required("spec.controllerName")]
    if isinstance(name, str) and not 0 < len(name) <= MAX_CONTROLLER_NAME:
        return [invalid("spec.controllerName", name, _CONTROLLER_NAME)]
    return []


def validate_admission_check_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of an update; the CRD ensures that its controller stays."""
    return validate_admission_check_create(new, gates)


def warn_admission_check(obj: Object) -> list[str]:
    """Return a warning for a MultiKueue check that cannot become active (M-18)."""
    spec = mapping(obj, "spec")
    if spec.get("controllerName") != MULTIKUEUE_CONTROLLER:
        return []
    parameters = mapping(spec, "parameters")
    want = (GROUP, "MultiKueueConfig")
    if (parameters.get("apiGroup"), parameters.get("kind")) == want and parameters.get("name"):
        return []
    missing = (
        f'spec.parameters: a MultiKueue check needs apiGroup "{GROUP}", kind '
        '"MultiKueueConfig" and a name; it stays inactive without them'
    )
    return [missing]


def validate_topology_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return what is wrong with a Topology."""
    return list(_levels(mapping(obj, "spec")))


def validate_topology_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of an update; the CRD has the rules for levels."""
    return validate_topology_create(new, gates)


def _labels(spec: Object) -> list[str]:
    return [text(level.get("nodeLabel")) for _, level in items(spec.get("levels"))]


def _levels(spec: Object) -> Iterator[FieldError]:
    labels = _labels(spec)
    repeated = set(_find_repeated(labels))
    for i, label in enumerate(labels):
        path = f"spec.levels[{i}].nodeLabel"
        if not re.fullmatch(LABEL_KEY_PATTERN, label):
            yield invalid(path, label, "must be the key of a node label")
        if i in repeated:
            yield duplicate(path, label)
        if label == HOSTNAME_LABEL and i < len(labels) - 1:
            yield invalid(
                path,
                label,
                f"the {HOSTNAME_LABEL} label can only be used at the lowest level of topology",
            )


def validate_multikueue_cluster_create(
    obj: Object, _gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of a MultiKueueCluster: not one source (M-10), unreadable taints."""
    return [*_cluster_source(obj), *validate_annotations(obj, OF_CLUSTERS)]


def _cluster_source(obj: Object) -> Iterator[FieldError]:
    if not isinstance(mapping(obj, "spec").get("clusterSource"), dict):
        return  # the schema requires it; v1beta1 objects may lack it
    source = mapping(obj, "spec", "clusterSource")
    given = [f for f in ("kubeConfig", "clusterProfileRef") if source.get(f) is not None]
    if len(given) != 1:
        detail = "exactly one of kubeConfig and clusterProfileRef is required"
        yield invalid("spec.clusterSource", given, detail)


def validate_multikueue_cluster_update(
    new: Object, old: Object, _gates: Gates | None = None
) -> list[FieldError]:
    """Return the errors of an update; the source may change at any time (M-14).

    Taints that were unreadable before do not block other changes.
    """
    known = set(_values(validate_annotations(old, OF_CLUSTERS)))
    errors = validate_annotations(new, OF_CLUSTERS)
    return [*_cluster_source(new), *(e for e in errors if (e.path, str(e.value)) not in known)]


def _values(errors: Iterator[FieldError]) -> Iterator[tuple[str, str]]:
    return ((error.path, str(error.value)) for error in errors)


def _find_repeated(names: Sequence[str]) -> Iterator[int]:
    """Return the positions of names that also occur earlier."""
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            yield i
        seen.add(name)


def validate_multikueue_config_create(obj: Object, _gates: Gates | None = None) -> list[FieldError]:
    """Return the errors of a MultiKueueConfig: repeated clusters (M-16), a bad dispatcher."""
    names = list(strings(mapping(obj, "spec").get("clusters")))
    twice = (duplicate(f"spec.clusters[{i}]", names[i]) for i in _find_repeated(names))
    return [*twice, *validate_annotations(obj, OF_CONFIGS)]


def validate_multikueue_config_update(
    new: Object, _old: Object, gates: Gates | None = None
) -> list[FieldError]:
    """Return what is wrong with an update; every field may change."""
    return validate_multikueue_config_create(new, gates)
