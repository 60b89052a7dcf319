"""The fields of a pod template that the engine needs; equal templates are read once.

A Workload is read again at each change of its status, by several readers, and many jobs have equal
pods, while the content of their template stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from multiqueue.model.placement import Placement, read_placement
from multiqueue.model.pod_requests import PodRequests, sum_pod_requests

REMEMBERED = 4096
"""Templates to remember; the least recently used one is dropped."""
LONGEST = 16_384
"""Size limit in bytes of a remembered template; one with a script may be a hundred times larger."""


class PodTemplate(NamedTuple):
    """The fields that were read. Shared, so they must not be changed.

    Attributes:
        pod: The requests of one pod.
        placement: Where the pod may run.
        problems: The invalid fields of its placement.
    """

    pod: PodRequests
    placement: Placement
    problems: tuple[str, ...]


def read_pod_template(template: Mapping[str, Any]) -> PodTemplate:
    """Read the requests of a template, and where its pods may run."""
    spec = msgspec.json.encode(template.get("spec"))
    return _recall(spec) if len(spec) <= LONGEST else _read(spec)


def _read(spec: bytes) -> PodTemplate:
    template = {"spec": msgspec.json.decode(spec)}
    return PodTemplate(sum_pod_requests(template), *read_placement(template))


_recall = lru_cache(maxsize=REMEMBERED)(_read)
