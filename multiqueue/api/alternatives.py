"""The annotation by which a job says how many pods do on which hardware. Pure.

``h100=4`` on a job of eight pods: eight, or four where these get an H100. Hardware is named as in
``multiqueue.dev/speeds``: by a flavor, or by the value of one of its node labels.
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
"""Alternatives of one pod set: each is tried in turn whenever the job is looked at."""
LONGEST = 4096
"""Characters of the annotation: what it says is remembered, and told when it is wrong."""
OTHERWISE = ""
"""Instead of a name: all hardware that is not named."""

Pods = Mapping[str, int]
"""Number of pods by hardware."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


@lru_cache(maxsize=4096)
def parse_alternatives(text: str) -> Mapping[str, Pods]:
    """Read ``h100=4,b200=2``, or ``workers:h100=4`` for jobs with several sorts of pods.

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
        counts: Pods that the job asks for, by name of the pod set.

    Returns:
        Numbers of pods by hardware, by name of the pod set.

    Raises:
        ValueError: it cannot be read, or does not go with these pods.
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
    """Return the annotation; empty where there is none, or nothing in it."""
    return annotations.get(ALTERNATIVES, "").strip()


def name_hardware(flavor: str, labels: Mapping[str, str], known: Collection[str]) -> str:
    """Return which of the known hardware a flavor is; `OTHERWISE` for none."""
    if flavor in known:
        return flavor
    return next((value for _, value in sorted(labels.items()) if value in known), OTHERWISE)


def forget_reclaimed(workload: Workload, status: WorkloadStatus) -> WorkloadStatus:
    """Return the status that a Workload gets, without what its run leaves to no other.

    Pods that ended were some of the number that it ran with. Of another number they may be none:
    with its quota goes what is known of them.

    Args:
        workload: It.
        status: The status that it is about to get.
    """
    if not status.reclaimable_pods or has_quota(status):
        return status
    if not find_alternatives(workload.metadata.annotations):
        return status
    return msgspec.structs.replace(status, reclaimable_pods=())
