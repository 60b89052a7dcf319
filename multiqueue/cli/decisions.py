"""Asks the manager for its dispatchers' decisions, and prints them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from multiqueue.cli.errors import CliError
from multiqueue.cli.output import echo, print_table
from multiqueue.cli.views.decisions import describe_clusters, describe_decision, list_terms
from multiqueue.cli.visibility import REMOTE
from multiqueue.kube.errors import Forbidden, KubeError, NotFound, ServerError
from multiqueue.kube.retries import LEADER, RetryPolicy
from multiqueue.plugins.recording import Decision, load

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient

JSON, LINES = "application/json", "application/x-ndjson"
MISSING = ("the server could not find the requested resource", "404 page not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """The decision that a manifest would get."""

    decision: Decision
    quota: str
    fits: bool
    cluster_queue: str
    notices: tuple[str, ...]


async def fetch_decision(
    client: KubeClient, namespace: str, name: str, *, retries: RetryPolicy = LEADER
) -> Decision:
    """Return the last decision about a Workload.

    Raises:
        CliError: there is none, or the user may not see it.
    """
    path = f"{REMOTE}/namespaces/{namespace}/workloads/{name}/dispatch"
    return load(Decision, (await _ask(client, "GET", path, retries=retries))["status"])


async def fetch_recording(client: KubeClient) -> bytes:
    """Return the last decisions, one per line.

    Raises:
        CliError: the user may not see them, or no manager leads.
    """
    return await _request(client, "GET", f"{REMOTE}/dispatchdecisions", accept=LINES)


async def review(client: KubeClient, manifest: Mapping[str, Any], namespace: str) -> Reviewed:
    """Return where a job would go if it were submitted now.

    Raises:
        CliError: the manifest is invalid, would not be dispatched, or the user may not ask.
    """
    path = f"{REMOTE}/namespaces/{namespace}/dispatchreviews"
    answer = (await _ask(client, "POST", path, body={"spec": {"manifest": manifest}}))["status"]
    return Reviewed(
        decision=load(Decision, answer["decision"]),
        quota=answer["quota"],
        fits=answer["fits"],
        cluster_queue=answer["clusterQueue"],
        notices=tuple(answer.get("notices", ())),
    )


def print_decision(decision: Decision, now: datetime | None = None) -> None:
    """Print a decision as text."""
    lines = describe_clusters(decision)
    echo(describe_decision(decision, now))
    echo()
    print_table(
        ["CLUSTER", "OFFERED", "TIER", "SCORE", "START", "WHY"],
        [
            [
                line.name,
                "yes" if line.nominated else "no",
                line.tier or None,
                line.score,
                line.start or None,
                line.why or None,
            ]
            for line in lines
        ],
    )
    names = list_terms(lines)
    if names:
        echo()
        weights = {name: line.terms[name][1] for line in lines for name in line.terms}
        print_table(
            ["CLUSTER", "SCORE", *(f"{name.upper()}x{weights[name]}" for name in names)],
            [
                [line.name, line.score, *(line.terms.get(name, (None, 0))[0] for name in names)]
                for line in lines
                if line.terms
            ],
            wide=True,
        )


async def _ask(client: KubeClient, method: str, path: str, **options: Any) -> dict[str, Any]:
    answer: dict[str, Any] = orjson.loads(await _request(client, method, path, **options))
    return answer


async def _request(
    client: KubeClient,
    method: str,
    path: str,
    *,
    body: Any = None,
    accept: str = JSON,
    retries: RetryPolicy = LEADER,
) -> bytes:
    async def ask() -> bytes:
        return (await client.request(method, path, body=body, accept=accept)).body

    try:
        return await retries.run(ask, on=_came_to_a_standby)
    except KubeError as error:
        raise _explain(error) from error


def _came_to_a_standby(error: BaseException) -> bool:
    return isinstance(error, ServerError) and "does not lead" in str(error)


def _explain(error: KubeError) -> CliError:
    if isinstance(error, NotFound) and any(words in str(error) for words in MISSING):
        return CliError(
            "this cluster does not tell about decisions: no manager serves "
            "remote.multiqueue.dev there (gate VisibilityOnDemand, config/visibility)"
        )
    if isinstance(error, Forbidden):
        return CliError(f"you may not ask about decisions: {error.server_message}")
    return CliError(getattr(error, "server_message", "") or str(error))
