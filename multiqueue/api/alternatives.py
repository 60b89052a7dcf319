"""The annotation by which a job accepts fewer pods on some hardware. Pure.

``h100=4`` on a job of eight pods means: eight pods, or four if they get H100s. Hardware is named as
in ``multiqueue.dev/speeds``: by a flavor, or by the value of one of its node labels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec

from multiqueue.api.names import ALTERNATIVES
from multiqueue.api.v1beta2 import Workload, WorkloadStatus
from multiqueue.api.workload_state import has_quota

MOST = 8
"""Alternatives of one pod set: all may be tried whenever the Workload is considered."""
LONGEST = 4096
"""Characters of the annotation, because its text is cached and repeated in errors."""
OTHERWISE = ""
"""In place of a hardware name: all hardware that is not named."""

Pods = Mapping[str, int]
"""Number of pods by hardware."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


@lru_cache(maxsize=4096)
def parse_alternatives(text: str) -> Mapping[str, Pods]:
    """Read ``h100=4,b200=2``, or ``workers:h100=4`` for jobs with several pod sets.

    Returns:
        Numbers of pods by hardware, by name of the pod set; "" for the only one.

    Raises:
        ValueError: the text is no such list.
    """
    if len(text) > LONGEST:
        raise ValueError(f"{len(text)} characters are more than {LONGEST}; leave some out")
    found: dict[str, dict[str, int]] = {}
    for part in text.split(","):
        where, sign, count = (piece.strip() for piece in part.partition("="))
        pod_set, colon, hardware = (piece.strip() for piece in where.rpartition(":"))
        if not sign or not _NAME.fullmatch(hardware) or (colon and not _NAME.fullmatch(pod_set)):
            raise ValueError(f'"{part.strip()}" is not HARDWARE=PODS, such as h100=4')
        if not _COUNT.fullmatch(count):
            raise ValueError(f'"{count}" is no number of pods, such as h100=4')
        pods = found.setdefault(pod_set, {})
        if hardware in pods:
            raise ValueError(f'"{hardware}" is named twice; write it once')
        pods[hardware] = int(count)
        if len(pods) > MOST:
            raise ValueError(f"more than {MOST} alternatives; leave some out")
    return found


def resolve_alternatives(text: str, counts: Mapping[str, int]) -> Mapping[str, Pods]:
    """Read the annotation of a job with these pods.

    Args:
        text: The annotation.
        counts: Pods that the job requests, by name of the pod set.

    Returns:
        Numbers of pods by hardware, by name of the pod set.

    Raises:
        ValueError: the annotation cannot be read, or does not match these pods.
    """
    resolved: dict[str, Pods] = {}
    for name, pods in parse_alternatives(text).items():
        if not name and len(counts) > 1:
            raise ValueError(
                f"which pods? Write one of {', '.join(sorted(counts))}, as NAME:h100=4"
            )
        pod_set = name or next(iter(counts), "")
        if pod_set not in counts:
            raise ValueError(f'there are no pods "{pod_set}", only {", ".join(sorted(counts))}')
        if pod_set in resolved:
            raise ValueError(f'"{pod_set}" is named in one place and left out in another')
        for hardware, count in pods.items():
            if count > counts[pod_set]:
                raise ValueError(
                    f"{count} pods on {hardware} are more than the {counts[pod_set]} of the job; "
                    "ask for the largest number in the job, and name what does with fewer"
                )
        resolved[pod_set] = pods
    return resolved


def find_alternatives(annotations: Mapping[str, str]) -> str:
    """Return the annotation; empty if it is absent or blank."""
    return annotations.get(ALTERNATIVES, "").strip()


def name_hardware(flavor: str, labels: Mapping[str, str], known: Collection[str]) -> str:
    """Return the known hardware that a flavor has; `OTHERWISE` if it has none of it."""
    if flavor in known:
        return flavor
    return next((value for _, value in sorted(labels.items()) if value in known), OTHERWISE)


def forget_reclaimed(workload: Workload, status: WorkloadStatus) -> WorkloadStatus:
    """Drop the reclaimable pods of a Workload with alternatives when its quota is released.

    The pods that ended belong to the number of pods of that run. The next run may have another
    number of pods, for which they do not count.

    Args:
        workload: The Workload with its present status.
        status: The status that the Workload is about to get.
    """
    if not status.reclaimable_pods or has_quota(status):
        return status
    if not find_alternatives(workload.metadata.annotations):
        return status
    return msgspec.structs.replace(status, reclaimable_pods=())
