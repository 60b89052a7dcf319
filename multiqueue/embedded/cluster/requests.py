"""The resource requests of pods, as the scheduler counts them.

Units: cpu in milli, everything else in whole base units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.model.pod_template import PodTemplate, read_pod_template
from multiqueue.model.resources import PODS

Amounts = dict[str, int]


def read_pod(pod: Mapping[str, Any]) -> PodTemplate:
    """Return what a pod requests and where it may run; remembered for equal specs."""
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return read_pod_template({"spec": spec})


def pod_requests(pod: Mapping[str, Any]) -> Amounts:
    """Return a pod's requests; each pod takes one of a node's ``pods``, too."""
    return {**read_pod(pod).pod.requests, PODS: 1}
