"""Asks the manager's visibility API for positions and reasons, with the user's rights.

Only the manager knows its Configuration, so nothing is computed here. If the manager cannot be
asked, the answers say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden, NotFound, RequestTimeout, ServerError
from multiqueue.kube.wire import read_answer

PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta2"
REMOTE = "/apis/remote.multiqueue.dev/v1alpha1"
SECONDS = 5.0
"""How long the manager may take to answer; the rest of the output must not wait longer."""
TRIES = 4
"""How often to ask: only the leader knows reasons, and the Service leads to any replica."""
NO_NUMBERS = "positions and numbers are missing"
PAGE = 10_000
"""The page size of a queue's Workloads: 3 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """The position of a Workload; both numbers count from 1."""

    in_cluster_queue: int
    in_local_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The positions in a queue, by ``namespace/name``; ``problem`` says why they are unknown."""

    by_key: Mapping[str, QueuePosition] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorNumbers:
    """Quota of one resource in one flavor, and the Workload's request. Wire quantities."""

    flavor: str
    resource: str
    asked: str
    nominal: str
    used: str
    free: str
    borrowable: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerAnswer:
    """The manager's answer about a waiting Workload; missing values are empty or None.

    Attributes:
        problem: What is missing, and why; empty if the leader answered in full.
        reason: The reason of its QuotaReserved=False condition; ``message`` its text.
        why: What it waits for now, in words; empty from older managers.
        no_preemption: Why no running Workload leaves for it; empty if one does, or none has to.
        blocked_by: The Workload that has to start before it; None if there is none, empty if the
            user may not know its name.
        lacks_share: Whether fair sharing keeps others' quota from it.
        place: The position; None if it does not wait.
        waiting: How many Workloads wait in its ClusterQueue.
        share: The weighted share of its ClusterQueue; None without fair sharing.
        shares: Those of all ClusterQueues of its cohort tree, the least first. A name is empty if
            the user may not know it.
        start: When it is expected to start, as `views.start` tells it; empty from older managers.
        past_usage: The LocalQueues of its ClusterQueue, the least usage first. A name is empty if
            the user may not know it; a usage is None if it is infinite.
    """

    problem: str = ""
    cluster_queue: str = ""
    reason: str = ""
    message: str = ""
    why: str = ""
    no_preemption: str = ""
    blocked_by: str | None = None
    lacks_share: bool = False
    place: QueuePosition | None = None
    waiting: int | None = None
    numbers: tuple[FlavorNumbers, ...] = ()
    share: int | None = None
    shares: tuple[tuple[str, int], ...] = ()
    past_usage: tuple[tuple[str, float | None], ...] = ()
    start: Mapping[str, Any] = field(default_factory=dict)


async def explain_workload(
    client: KubeClient, namespace: str, name: str, queue: str
) -> ManagerAnswer:
    """Return the manager's answer about a Workload.

    Args:
        client: The cluster's client.
        namespace: The Workload's namespace.
        name: The Workload's name.
        queue: Its LocalQueue, for managers that serve only positions.
    """
    path = f"{REMOTE}/namespaces/{_quote(namespace)}/workloads/{_quote(name)}/explanation"
    status: Mapping[str, Any] = {}
    for _ in range(TRIES):
        try:
            status = (await ask(client, path))["status"]
        except (Forbidden, NotFound) as error:
            return await _explain_by_position(client, f"{namespace}/{name}", queue, error)
        except (ApiError, RequestTimeout) as error:
            return ManagerAnswer(problem=f"{describe_problem(error)}; {NO_NUMBERS}")
        if status["leading"]:
            return _read(status)
    return _read(
        status,
        "the manager that answered does not lead, so the reason is the one last written on the "
        "Workload",
    )


async def read_local_queue(client: KubeClient, namespace: str, name: str) -> Places:
    """Return the positions in a LocalQueue."""
    return await _read_places(client, f"namespaces/{_quote(namespace)}/localqueues/{_quote(name)}")


async def read_cluster_queue(client: KubeClient, name: str) -> Places:
    """Return the positions in a ClusterQueue."""
    return await _read_places(client, f"clusterqueues/{_quote(name)}")


async def _read_places(client: KubeClient, queue: str) -> Places:
    by_key: dict[str, QueuePosition] = {}
    path, offset, is_full = f"{PENDING}/{queue}/pendingworkloads", 0, True
    while is_full:
        page = {"offset": str(offset), "limit": str(PAGE)}
        try:
            items = (await ask(client, path, **page))["items"]
        except (ApiError, RequestTimeout) as error:
            if isinstance(error, NotFound) and error.details.get("name"):
                return Places()  # there is no such queue, so no Workload waits in it
            return Places(problem=f"{describe_problem(error)}; positions are missing")
        for item in items:
            metadata = item["metadata"]
            by_key[f"{metadata['namespace']}/{metadata['name']}"] = _place(item)
        offset, is_full = offset + PAGE, len(items) == PAGE
    return Places(by_key=by_key)


async def _explain_by_position(
    client: KubeClient, key: str, queue: str, error: Forbidden | NotFound
) -> ManagerAnswer:
    """Return the position alone: older managers, and Kueue, serve nothing else."""
    if error.details.get("kind") == "workloads" and isinstance(error, NotFound):
        return ManagerAnswer(problem="the manager has not seen this Workload yet")
    namespace, _, _ = key.partition("/")
    places = await read_local_queue(client, namespace, queue)
    if places.problem:
        return ManagerAnswer(problem=f"{describe_problem(error)}; {NO_NUMBERS}")
    why = describe_problem(error)
    if isinstance(error, NotFound):
        why = "the manager is older than this command or is no multiqueue: it tells positions only"
    return ManagerAnswer(problem=f"{why}; numbers are missing", place=places.by_key.get(key))


async def ask(client: KubeClient, path: str, **params: str) -> dict[str, Any]:
    """Return what the manager answers to a GET request.

    Raises:
        ApiError: It refuses, or does not run.
        RequestTimeout: It does not answer in time.
    """
    answer = await client.request("GET", path, params=params, timeout=SECONDS)
    found: dict[str, Any] = read_answer(answer.body, orjson.loads, f"GET {path}")
    return found


def _quote(name: str) -> str:
    return quote(name, safe="")


def describe_problem(error: ApiError | RequestTimeout) -> str:
    """Say why the manager did not answer, and what to do."""
    if isinstance(error, RequestTimeout):
        return "the manager has not answered in time"
    told = error.server_message or str(error)
    if isinstance(error, Forbidden):
        return f"you may not ask the manager: {told}"
    if isinstance(error, NotFound):
        return (
            "no manager answers which Workloads wait: none runs, or it runs without the gate "
            "VisibilityOnDemand or without config/visibility"
        )
    if isinstance(error, ServerError):
        return f"the manager does not answer: {told}"
    return f"the manager refuses to answer: {told}"


def _place(item: Mapping[str, Any]) -> QueuePosition:
    return QueuePosition(
        in_cluster_queue=item["positionInClusterQueue"] + 1,
        in_local_queue=item["positionInLocalQueue"] + 1,
    )


def _read(status: Mapping[str, Any], problem: str = "") -> ManagerAnswer:
    fair = status.get("fairSharing", {})
    numbers = tuple(
        FlavorNumbers(
            flavor=row["name"],
            resource=row["resource"],
            asked=row["requested"],
            nominal=row["nominal"],
            used=row["used"],
            free=row["free"],
            borrowable=row["borrowable"],
            verdict=row["verdict"],
        )
        for row in status.get("flavors", ())
    )
    return ManagerAnswer(
        problem=problem if status["pending"] else "",
        cluster_queue=status["clusterQueue"],
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        why=status.get("why", ""),
        no_preemption=status.get("preemption", {}).get("refusal", ""),
        blocked_by=status["blockedBy"]["workload"] if "blockedBy" in status else None,
        lacks_share="loss" in fair,
        place=_place(status) if "positionInClusterQueue" in status else None,
        waiting=status.get("pendingInClusterQueue"),
        numbers=numbers,
        share=fair.get("weightedShare"),
        shares=tuple((row["name"], row["share"]) for row in fair.get("clusterQueues", ())),
        past_usage=tuple((row["localQueue"], row["usage"]) for row in status.get("pastUsage", ())),
        start=status.get("start", {}),
    )
