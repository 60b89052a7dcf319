"""Rules of the annotations by which jobs choose clusters, and clusters keep jobs off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from multiqueue.api import names
from multiqueue.api.cluster_taints import parse_taints, parse_tolerations
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, invalid
from multiqueue.lib.selectors import parse_label_selector

Parse = Callable[[str], Any]

OF_JOBS: Mapping[str, Parse] = MappingProxyType(
    {
        names.CLUSTER_SELECTOR: parse_label_selector,
        names.CLUSTER_TOLERATIONS: parse_tolerations,
    }
)
OF_CLUSTERS: Mapping[str, Parse] = MappingProxyType({names.CLUSTER_TAINTS: parse_taints})


def validate_annotations(obj: Object, rules: Mapping[str, Parse]) -> Iterator[FieldError]:
    """Check that annotations can be read."""
    annotations = mapping(obj, "metadata", "annotations")
    for key, parse in rules.items():
        value = annotations.get(key)
        if not isinstance(value, str):
            continue
        try:
            parse(value)
        except ValueError as error:
            yield invalid(f"metadata.annotations[{key}]", value, str(error))
