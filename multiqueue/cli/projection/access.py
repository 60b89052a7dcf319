"""Access to a worker: the manager's stored kubeconfig, or an administrator's credentials."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from multiqueue.api.validation.access import Object, mapping, text
from multiqueue.cli.connect import ClusterTarget, load_credentials
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import NAMESPACES
from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal, SafeKubeconfig
from multiqueue.workers.kubeconfigs.stored import read_stored

T = TypeVar("T")

WORKER_SECONDS = 60.0
"""The time limit for all requests to one worker."""
REQUEST_SECONDS = 10.0


class WorkerError(Exception):
    """A worker cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class AdministratorAccess:
    """The administrators' credentials that were given, by worker."""

    contexts: Mapping[str, str]
    kubeconfigs: Mapping[str, str]

    def leads_to(self, worker: str) -> bool:
        """Whether credentials were given for a worker."""
        return worker in self.contexts or worker in self.kubeconfigs


def access_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--worker-context`` and ``--worker-kubeconfig``; each value names its worker.

    The command gets ``access`` for them; a value that is no pair raises a UsageProblem.
    """

    @click.option(
        "--worker-context",
        "contexts",
        multiple=True,
        metavar="NAME=CONTEXT",
        help="Context of a worker's administrator, in --worker-kubeconfig or in the manager's "
        "kubeconfig; repeat it.",
    )
    @click.option(
        "--worker-kubeconfig",
        "kubeconfigs",
        multiple=True,
        metavar="NAME=FILE",
        help="Kubeconfig of a worker's administrator; repeat it.",
    )
    @functools.wraps(function)
    def command(*, contexts: Sequence[str], kubeconfigs: Sequence[str], **options: Any) -> Any:
        access = AdministratorAccess(
            _pairs("--worker-context", "CONTEXT", contexts),
            _pairs("--worker-kubeconfig", "FILE", kubeconfigs),
        )
        return function(access=access, **options)

    return command


def _pairs(option: str, what: str, values: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not (name and equals and rest):
            raise UsageProblem(f'{option} "{value}": write NAME={what}')
        if name in pairs:
            raise UsageProblem(f'{option}: worker "{name}" is named twice')
        pairs[name] = rest
    return pairs


async def administrator(
    access: AdministratorAccess, worker: str, manager: ClusterTarget
) -> Credentials:
    """Return the credentials that were given for a worker.

    Raises:
        CliError: they cannot be used.
    """
    kubeconfig = access.kubeconfigs.get(worker) or manager.kubeconfig
    target = ClusterTarget(kubeconfig=kubeconfig, context=access.contexts.get(worker))
    return await load_credentials(target)


async def stored(client: KubeClient, cluster: Object, namespace: str) -> SafeKubeconfig:
    """Return the manager's kubeconfig for a worker, checked as the manager checks it.

    Raises:
        WorkerError: there is no usable one.
    """
    source = mapping(cluster, "spec", "clusterSource", "kubeConfig")
    if source.get("locationType", "Secret") != "Secret" or not source:
        raise WorkerError("its kubeconfig is not in a Secret, so only the manager can use it")
    location = text(source.get("location"))
    try:
        found = await read_stored(client, location, namespace, datetime.now(UTC))
    except Forbidden as error:
        raise WorkerError(f'not allowed to read Secret "{namespace}/{location}"') from error
    if isinstance(found, KubeconfigRefusal):
        raise WorkerError(f"{found.reason}: {found.message}")
    return found


async def with_worker(
    credentials: Credentials,
    work: Callable[[KubeClient], Awaitable[T]],
    *,
    on_warning: Callable[[str], None] = lambda _: None,
) -> T:
    """Do some work on a worker, within its time limit.

    Args:
        credentials: The credentials to use.
        work: The work, which gets the worker's client.
        on_warning: Gets the server's warnings.

    Raises:
        WorkerError: the worker does not answer, or answers with an error.
    """
    try:
        async with (
            asyncio.timeout(WORKER_SECONDS),
            KubeClient(
                credentials,
                user_agent="multiqueue-cli",
                default_timeout=REQUEST_SECONDS,
                on_warning=on_warning,
            ) as client,
        ):
            return await work(client)
    except TimeoutError as error:
        raise WorkerError(f"no answer within {WORKER_SECONDS:g} s") from error
    except (KubeError, CliError) as error:
        raise WorkerError(str(error)) from error


async def identify(client: KubeClient) -> str:
    """Return a cluster's identity, whatever its address; empty if it is unknown."""
    try:
        return text((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])
    except (Forbidden, NotFound):
        return ""
