"""Changes of workers. Pure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.serde import encode
from multiqueue.api.workload_state import complete_eviction, evict, has_quota
from multiqueue.lib.digits import is_number
from multiqueue.model.resources import is_accelerator
from multiqueue.whatif.change_request import ChangeError, ChangeRequest, FormError, find_object
from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]


def cordon(ask: ChangeRequest) -> str:
    """Keep new jobs off a worker."""
    worker = _find_worker(ask.snapshot, ask.words)
    worker["metadata"].setdefault("annotations", {})[names.CORDON] = "true"
    return f"worker {ask.words[0]} takes no new jobs; those that run there stay"


def drain(ask: ChangeRequest) -> str:
    """Cordon a worker, and queue its jobs again."""
    worker = _find_worker(ask.snapshot, ask.words)
    worker["metadata"].setdefault("annotations", {})[names.CORDON] = "true"
    moved = _evict_from(ask.snapshot, ask.words[0])
    return f"worker {ask.words[0]} takes no new jobs, and its {_count(moved)} again"


def remove(ask: ChangeRequest) -> str:
    """Take a worker away, and queue its jobs again."""
    _find_worker(ask.snapshot, ask.words)
    moved = _evict_from(ask.snapshot, ask.words[0])
    ask.snapshot.remove("MultiKueueCluster", ask.words[0])
    ask.snapshot.clusters.pop(ask.words[0], None)
    return f"worker {ask.words[0]} is gone, and its {_count(moved)} again"


def _count(moved: int) -> str:
    return "1 job queues" if moved == 1 else f"{moved} jobs queue"


def add(ask: ChangeRequest) -> str:
    """Add a worker to every MultiKueueConfig, with queues like those of a worker of its flavor."""
    if len(ask.words) != 2:
        raise FormError
    name, wanted = ask.words
    if name in ask.snapshot.of("MultiKueueCluster"):
        raise ChangeError(f'there is a MultiKueueCluster "{name}"')
    flavor, gpus = _read_gpus(wanted)
    _copy_queues(ask.snapshot, name, flavor, gpus)
    ask.snapshot.put({"kind": "MultiKueueCluster", "metadata": {"name": name}})
    for config in ask.snapshot.of("MultiKueueConfig").values():
        config["spec"]["clusters"] = [*config["spec"].get("clusters", ()), name]
    return f"worker {name} with {gpus} GPUs of flavor {flavor}; the manager's quota stays as it is"


def _read_gpus(word: str) -> tuple[str, int]:
    flavor, equals, count = word.partition("=")
    if not (flavor and equals and is_number(count)):
        raise FormError(f'"{word}" is no FLAVOR=N')
    return flavor, int(count)


def _copy_queues(snapshot: Snapshot, name: str, flavor: str, gpus: int) -> None:
    """Copy the queues of a worker that has a flavor; only the accelerators get another number."""
    others = sorted(set(snapshot.of("MultiKueueCluster")) & set(snapshot.clusters))
    like = next((each for each in others if flavor in snapshot.of("ResourceFlavor", each)), None)
    if like is None:
        raise ChangeError(f"no worker of the snapshot has flavor {flavor}, to copy its queues")
    for objects in copy.deepcopy(snapshot.clusters[like]).values():
        for obj in objects.values():
            if obj["kind"] == "ClusterQueue":
                _set_gpus(obj, flavor, gpus)
            snapshot.put(obj, name)


def _set_gpus(queue: Json, flavor: str, gpus: int) -> None:
    """Keep one flavor of a ClusterQueue, with a number of accelerators."""
    for group in queue["spec"].get("resourceGroups") or ():
        group["flavors"] = [each for each in group["flavors"] if each["name"] == flavor]
        for quota in (each for kept in group["flavors"] for each in kept["resources"]):
            if is_accelerator(quota["name"]):
                quota["nominalQuota"] = gpus


def _find_worker(snapshot: Snapshot, words: Sequence[str]) -> Json:
    if len(words) != 1:
        raise FormError
    return find_object(snapshot, "MultiKueueCluster", words[0])


def _evict_from(snapshot: Snapshot, worker: str) -> int:
    """Evict the Workloads that run on a worker; return how many there are."""
    moved = 0
    for key, workload in snapshot.workloads().items():
        if workload.status.cluster_name != worker or not has_quota(workload.status):
            continue
        words = f"Worker {worker} is taken out of use"
        now = snapshot.taken_at
        status = evict(workload.status, Reason.NO_MATCHING_WORKLOAD, words, now=now)
        status = complete_eviction(status, now=now)
        snapshot.of("Workload")[key]["status"] = encode(status)
        moved += 1
    return moved
