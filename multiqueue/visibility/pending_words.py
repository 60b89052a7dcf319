"""What a Workload waits for, in one text, from the explanation that the same answer has. Pure.

Conditions keep upstream's messages, which tools read, and which may be older than the numbers. This
text has the numbers of this moment, and names who is ahead or took the room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api.conditions import Reason
from multiqueue.engine.plan import SkipReason
from multiqueue.engine.queue_states import BYPASSED

Json = dict[str, Any]

OTHERS = "a Workload of another namespace"
"""Stands for a Workload whose name the user may not know."""
_ROOM = "has room now: the next cycle tries it, unless the room is kept for a Workload ahead of it"
_TAKEN = {
    SkipReason.NO_LONGER_FITS: "when its turn came, {} had just taken the room",
    SkipReason.OVERLAPPING_TARGETS: "the Workloads that it would preempt already make room for {}",
}


def tell_waiting(status: Mapping[str, Any]) -> str:
    """Return what a Workload waits for; empty if it does not wait, or only the leader knows.

    Args:
        status: The explanation, without the names that the user may not know.
    """
    if not status.get("reason"):
        return ""
    blocker = status.get("blockedBy")
    if blocker is not None:
        return _behind(status["clusterQueue"], blocker)
    parts = [*_taken(status), *_flavors(status)]
    victims = status["preemption"]["victims"]
    if victims:
        them = (
            "the Workload that it preempts has"
            if victims == 1
            else f"the {victims} Workloads that it preempts have"
        )
        parts.append(f"it starts once {them} stopped")
    return "; ".join(parts) or str(status["message"]).removeprefix(f"{BYPASSED}: ")


def _behind(cluster_queue: str, blocker: Json) -> str:
    who = blocker["workload"] or OTHERS
    size = f" ({blocker['gpus']} GPUs, priority {blocker['priority']})"
    waits = f"That one waits: {blocker['why']}"
    if blocker["strict"]:
        return (
            f"ClusterQueue {cluster_queue} is StrictFIFO, so it waits behind {who}{size}, which "
            f"starts first. {waits}"
        )
    return f"room is being made for {who}{size}, which is ahead of it. {waits}"


def _taken(status: Mapping[str, Any]) -> list[str]:
    message = status["message"]
    for skip, words in _TAKEN.items():
        if message.startswith(skip):
            names = [name or OTHERS for name in status["takenBy"]]
            return [words.format(", ".join(dict.fromkeys(names)) or "another Workload")]
    return []


def _flavors(status: Mapping[str, Any]) -> list[str]:
    """Return what is missing in each flavor, those first for which waiting helps."""
    rows = {(row["name"], row["resource"]): row for row in status.get("flavors", ())}
    waits: dict[str, None] = {}
    never: dict[str, None] = {}
    for pod_set in status["podSets"]:
        of = f"pod set {pod_set['name']}: " if len(status["podSets"]) > 1 else ""
        for flavor in pod_set["flavors"]:
            if flavor["reason"] == Reason.WAITING_FOR_QUOTA and flavor["missing"]:
                waits[_missing(flavor, rows)] = None
            else:
                never.update(dict.fromkeys(of + words for words in flavor["words"]))
    return [text for text in waits if text.endswith(_ROOM)] or [*waits, *never]


def _missing(flavor: Json, rows: Mapping[tuple[str, str], Json]) -> str:
    """Return how much a flavor lacks, from the same numbers as the table."""
    name = flavor["name"]
    short = [
        f"{row['resource']} in flavor {name}: {row['verdict']}"
        for resource in flavor["missing"]
        if (row := rows.get((name, resource))) is not None and row["missing"] is not None
    ]
    return ", ".join(short) or f"flavor {name} {_ROOM}"
