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
LONGEST = 16_384
"""Bytes of one that is remembered; with a script in it, it may have a hundred times as many."""


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
    spec = msgspec.json.encode(template.get("spec"))
    return _recall(spec) if len(spec) <= LONGEST else _read(spec)


def _read(spec: bytes) -> PodTemplate:
    template = {"spec": msgspec.json.decode(spec)}
    return PodTemplate(sum_pod_requests(template), *read_placement(template))


_recall = lru_cache(maxsize=REMEMBERED)(_read)
