"""Rules of the sections ``resources`` and ``metrics``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from multiqueue.api.config.checks import unique
from multiqueue.api.config.types import Configuration, DeviceClassMapping, MetricLabel
from multiqueue.lib.quantity import QuantityError, parse_quantity

_METRIC_LABEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def resources(config: Configuration) -> Iterator[str]:
    """Check which requests count, and as which resources."""
    section = config.resources
    if section.quota_check_strategy not in {"BlockUndeclared", "IgnoreUndeclared"}:
        yield (
            f'resources.quotaCheckStrategy: "{section.quota_check_strategy}": '
            "use BlockUndeclared or IgnoreUndeclared"
        )
    if section.quota_check_strategy == "IgnoreUndeclared" and section.exclude_resource_prefixes:
        yield (
            "resources.excludeResourcePrefixes: has no meaning with IgnoreUndeclared; remove one "
            "of them"
        )
    path = "resources.transformations"
    yield from unique(path, [t.input for t in section.transformations])
    for i, transformation in enumerate(section.transformations):
        if transformation.strategy not in {"Retain", "Replace"}:
            yield f'{path}[{i}].strategy: "{transformation.strategy}": use Retain or Replace'
        for resource, amount in transformation.outputs.items():
            try:
                parse_quantity(amount)
            except QuantityError as error:
                yield f"{path}[{i}].outputs[{resource}]: {error}"
    yield from _device_mappings(section.device_class_mappings)


def _device_mappings(mappings: tuple[DeviceClassMapping, ...]) -> Iterator[str]:
    path = "resources.deviceClassMappings"
    if len(mappings) > 16:
        yield f"{path}: {len(mappings)} mappings; at most 16 are allowed"
    yield from unique(path, [mapping.name for mapping in mappings])
    owners: dict[str, str] = {}
    for i, mapping in enumerate(mappings):
        if not 1 <= len(mapping.device_class_names) <= 8:
            yield (
                f"{path}[{i}].deviceClassNames: {len(mapping.device_class_names)} classes; use 1 "
                "to 8"
            )
        if {source.counter is None for source in mapping.sources} == {True, False}:
            yield f"{path}[{i}].sources: counters and capacities cannot be mixed"
        for j, source in enumerate(mapping.sources):
            if (source.counter is None) == (source.capacity is None):
                yield f"{path}[{i}].sources[{j}]: exactly one of counter and capacity is required"
        for name in mapping.device_class_names:
            if name in owners and not mapping.sources:
                yield (
                    f'{path}[{i}].deviceClassNames: "{name}" is in mapping "{owners[name]}" already'
                )
            owners.setdefault(name, mapping.name)


def metric_labels(config: Configuration) -> Iterator[str]:
    """Check extra labels of metrics, whose number of values must stay bounded."""
    labels = config.metrics.custom_labels
    path = "metrics.customLabels"
    if len(labels) > 20:
        yield f"{path}: {len(labels)} labels; at most 20 are allowed"
    yield from unique(path, [label.name for label in labels])
    for kind, limit in _LABELS_PER_KIND.items():
        count = sum(label.source_kind == kind for label in labels)
        if count > limit:
            yield f"{path}: {count} labels of kind {kind}; at most {limit} are allowed"
    for i, label in enumerate(labels):
        yield from _metric_label(f"{path}[{i}]", label)


_LABELS_PER_KIND = {"ClusterQueue": 6, "LocalQueue": 6, "Cohort": 6, "Workload": 2}


def _metric_label(path: str, label: MetricLabel) -> Iterator[str]:
    if not _METRIC_LABEL.fullmatch(label.name):
        yield f'{path}.name: "{label.name}" must be a letter, then letters, digits and "_"'
    if label.source_label_key and label.source_annotation_key:
        yield f"{path}: sourceLabelKey and sourceAnnotationKey exclude each other"
    if label.source_kind not in _LABELS_PER_KIND:
        yield f'{path}.sourceKind: "{label.source_kind}": use {", ".join(_LABELS_PER_KIND)}'
    count = len(label.tracked_values)
    if label.source_kind == "Workload" and not 1 <= count <= 12:
        yield f"{path}.trackedValues: {count} values; a Workload label needs 1 to 12"
    elif count > 16:
        yield f"{path}.trackedValues: {count} values; at most 16 are allowed"
