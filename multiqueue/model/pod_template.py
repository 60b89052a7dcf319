"""What the engine needs of a pod template, read once however often it is seen.

A Workload is read again at each change of its status, by several readers, and many jobs have pods
that are alike; what their template says stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from multiqueue.model.build_placement import read_placement
from multiqueue.model.placement import Placement
from multiqueue.model.pod_requests import PodRequests, sum_pod_requests

REMEMBERED = 4096
"""Templates; the least recently used is read again."""


class PodTemplate(NamedTuple):
    """What was read; shared, so nobody may change it.

    Attributes:
        pod: What one pod requests.
        placement: Where it may run.
        problems: Which fields of its placement say nothing that is understood.
    """

    pod: PodRequests
    placement: Placement
    problems: tuple[str, ...]


def read_pod_template(template: Mapping[str, Any]) -> PodTemplate:
    """Read what a template requests, and where its pods may run."""
    return _read(msgspec.json.encode(template.get("spec")))


@lru_cache(maxsize=REMEMBERED)
def _read(spec: bytes) -> PodTemplate:
    template = {"spec": msgspec.json.decode(spec)}
    return PodTemplate(sum_pod_requests(template), *read_placement(template))
