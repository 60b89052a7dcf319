"""The log of a simulated container: a few lines per run, made from the pod's status. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import parse_time

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


def read_log(
    pod: Mapping[str, Any], container: str, run: Mapping[str, Any]
) -> Iterator[tuple[datetime, str]]:
    """Yield time and text of each line of one run, oldest first.

    Args:
        pod: The pod.
        container: The name of one of its containers.
        run: ``running`` or ``terminated`` of that container's status, now or before.
    """
    started, finished = parse_time(run.get("startedAt")), parse_time(run.get("finishedAt"))
    if started is not None:
        spec = _spec_of(pod, container)
        yield started, f'simulated container "{container}" started, image {spec.get("image", "")}'
        command = [*(spec.get("command") or ()), *(spec.get("args") or ())]
        shown = json.dumps(command, ensure_ascii=False) if command else "of the image"
        yield started, f"command: {shown}; nothing is executed"
    if finished is not None:
        yield finished, f"finished with exit code {run.get('exitCode', 0)}"


def _spec_of(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    for field in CONTAINER_LISTS:
        for spec in pod["spec"].get(field) or ():
            if spec["name"] == container:
                found: Mapping[str, Any] = spec
                return found
    return {}
