"""Asks the manager what-ifs: when a job would start, and what changes would make different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from multiqueue.cli.errors import CliError
from multiqueue.kube.errors import Forbidden, KubeError, NotFound, ServerError
from multiqueue.kube.retries import LEADER

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient

Json = dict[str, Any]
FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
SECONDS = 40.0
"""How long the answer may take; the manager gives up after 20 s."""


async def foresee_job(client: KubeClient, job: Mapping[str, Any], namespace: str) -> Json:
    """Return the ``status`` of the what-if of a job, which is not submitted.

    Raises:
        CliError: the job would be refused, the user may not ask, or nobody answers.
    """
    return await _ask(client, f"{FLEET}/namespaces/{namespace}/whatifs", {"job": job})


async def try_changes(client: KubeClient, changes: Sequence[str]) -> Json:
    """Return the ``status`` of the what-if of changes of the fleet; nothing is written.

    Raises:
        CliError: a change cannot be tried, the user may not ask, or nobody answers.
    """
    return await _ask(client, f"{FLEET}/whatifs", {"changes": list(changes)})


async def _ask(client: KubeClient, path: str, spec: Json) -> Json:
    body = {"spec": spec}

    async def ask() -> bytes:
        return (await client.request("POST", path, body=body, timeout=SECONDS)).body

    try:
        answer: Json = orjson.loads(await LEADER.run(ask, on=_came_to_a_standby))
    except KubeError as error:
        raise _explain(error) from error
    status: Json = answer["status"]
    return status


def _came_to_a_standby(error: BaseException) -> bool:
    return isinstance(error, ServerError) and "does not lead" in str(error)


def _explain(error: KubeError) -> CliError:
    words = getattr(error, "server_message", "") or str(error)
    if isinstance(error, NotFound):
        return CliError(
            "this cluster answers no what-ifs: no manager serves fleet.multiqueue.dev there, or an "
            f"older one (gate VisibilityOnDemand, config/visibility): {words}"
        )
    if isinstance(error, Forbidden):
        return CliError(f"you may not ask that: {words}")
    return CliError(words)
