"""Rules of the annotations that control dispatch.

Jobs choose clusters by them, clusters repel jobs, and queues and MultiKueueConfigs choose their
dispatcher.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from multiqueue.api import names
from multiqueue.api.cluster_taints import parse_taints, parse_tolerations
from multiqueue.api.validation.access import Object, mapping
from multiqueue.api.validation.field_error import FieldError, invalid
from multiqueue.api.validation.names import check_subdomain
from multiqueue.lib.selectors import parse_label_selector

Parse = Callable[[str], Any]

_DISPATCHER = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")


def _read_names(text: str) -> None:
    for name in filter(None, (part.strip() for part in text.split(","))):
        if problems := check_subdomain(name):
            raise ValueError(f'"{name}" is no name of a MultiKueueCluster: {"; ".join(problems)}')


def _read_dispatcher(text: str) -> None:
    if not _DISPATCHER.fullmatch(text):
        raise ValueError(
            'must be the name of a dispatcher, such as "score" or "example.com/mine"; '
            "remove the annotation to have the manager's own"
        )


def _read_profile(text: str) -> None:
    if problems := check_subdomain(text.strip()):
        raise ValueError(f"must be the name of a DispatchProfile: {'; '.join(problems)}")


OF_JOBS: Mapping[str, Parse] = MappingProxyType(
    {
        names.CLUSTER_NAMES: _read_names,
        names.CLUSTER_SELECTOR: parse_label_selector,
        names.CLUSTER_TOLERATIONS: parse_tolerations,
    }
)
OF_CLUSTERS: Mapping[str, Parse] = MappingProxyType({names.CLUSTER_TAINTS: parse_taints})
OF_QUEUES: Mapping[str, Parse] = MappingProxyType({names.DISPATCH_PROFILE: _read_profile})
OF_CONFIGS: Mapping[str, Parse] = MappingProxyType(
    {names.DISPATCHER: _read_dispatcher, **OF_QUEUES}
)


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
