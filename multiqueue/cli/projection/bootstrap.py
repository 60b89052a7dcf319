"""Makes a cluster a worker: an account there, its kubeconfig here; waits until it is used.

Every step can be repeated: existing objects stay, and a working token is kept. Nothing that is
shown contains a token.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from multiqueue.api.conditions import ACTIVE, find_condition
from multiqueue.api.names import PROJECTION_FIELD_MANAGER
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import MultiKueueCluster
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.errors import CliError
from multiqueue.cli.projection.access import WorkerError, identify, stored, with_worker
from multiqueue.cli.projection.kind_rights import SentKinds
from multiqueue.cli.projection.lost_rights import describe_lost, find_wider
from multiqueue.cli.projection.tokens import (
    Token,
    anchor_of,
    issue_token,
    withdraw,
    withdraw_former,
)
from multiqueue.cli.projection.waiting import wait_for
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import ApiError, Conflict, NotFound
from multiqueue.kube.kubeconfig import pick_context
from multiqueue.kube.retries import RIGHTS
from multiqueue.projection.registration import (
    account_manifests,
    build_kubeconfig,
    cluster_manifest,
    kubeconfig_secret,
)
from multiqueue.projection.worker_role import Right
from multiqueue.runtime.manifests import Applier
from multiqueue.workers.kubeconfigs.expiry import TOKEN, Expiry, find_expiries

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The worker to register.

    Attributes:
        name: The name of the MultiKueueCluster.
        namespace: The manager's namespace, for the Secret.
        secret: The name of the Secret.
        is_known: Whether a MultiKueueCluster names that Secret already, so that we may change its
            content.
        cluster: The kubeconfig's cluster entry: how the manager reaches the worker.
        origin: The uid of the manager's kube-system.
        lifetime: The lifetime of the token; None: as long as its Secret on the worker.
        kinds: The kinds of jobs that the manager sends to workers.
        force: Whether to take over objects of other owners.
    """

    name: str
    namespace: str
    secret: str
    is_known: bool
    cluster: Json
    origin: str
    lifetime: timedelta | None
    kinds: SentKinds
    force: bool = False


@dataclass(slots=True)
class BootstrapResult:
    """The steps done, one line each, and the result."""

    lines: list[str] = field(default_factory=list)
    expiries: tuple[Expiry, ...] = ()
    active: bool | None = None
    message: str = ""


async def find_secret(client: KubeClient, name: str) -> str | None:
    """Return the Secret that a MultiKueueCluster names; None if there is no such cluster.

    Raises:
        CliError: its kubeconfig is not in a Secret.
    """
    try:
        cluster: Json = await client.get(resources.MULTIKUEUE_CLUSTERS, name)
    except NotFound:
        return None
    source = mapping(cluster, "spec", "clusterSource", "kubeConfig")
    if not source or source.get("locationType", "Secret") != "Secret":
        raise CliError(
            f'MultiKueueCluster "{name}" does not take its kubeconfig from a Secret; only such '
            "can be bootstrapped"
        )
    return text(source.get("location"))


@dataclass(frozen=True, slots=True)
class Stored:
    """The credentials that the manager has for the worker so far.

    Attributes:
        works: Whether they lead to this very worker, which accepts them.
        expiries: When the token and the CA end, the first to end first.
        anchor: The Secret on the worker with which the token ends; empty if there is none.
        wider: The rights they have there beside the manager's role.
    """

    works: bool = False
    expiries: tuple[Expiry, ...] = ()
    anchor: str = ""
    wider: frozenset[Right] = frozenset()


async def look_at_stored(client: KubeClient, name: str, namespace: str, identity: str) -> Stored:
    """Try the credentials that the manager has stored for a worker."""
    try:
        cluster = await client.get(resources.MULTIKUEUE_CLUSTERS, name)
        found = await stored(client, cluster, namespace)
    except (NotFound, WorkerError):
        return Stored()
    token = text(pick_context(found.config).user.get("token"))
    credentials = await Credentials.from_kubeconfig_dict(found.config)
    try:
        works = await with_worker(credentials, identify) == identity
    except WorkerError:
        works = False
    wider = await find_wider(dict(found.config)) if works else frozenset()
    return Stored(works, found.expiries, anchor_of(token), wider)


def manifests(wanted: Registration) -> tuple[list[Json], list[Json]]:
    """Return the manifests for the worker and for the manager, without the token."""
    secret = kubeconfig_secret(
        wanted.secret, wanted.namespace, build_kubeconfig(wanted.cluster, token="")
    )
    there = [*account_manifests(), *wanted.kinds.roles()]
    return there, [secret, cluster_manifest(wanted.name, wanted.secret)]


async def prepare(worker: KubeClient, wanted: Registration, done: BootstrapResult) -> None:
    """Create the account and give it the rights for the kinds of jobs sent, and no others."""
    there, _ = manifests(wanted)
    for manifest in there:
        await _apply(worker, manifest, done, where=wanted.name, force=wanted.force)


async def register(
    worker: KubeClient,
    manager: KubeClient,
    wanted: Registration,
    done: BootstrapResult,
    *,
    identity: str,
    former: Stored,
) -> None:
    """Issue a token, check that it works, and give it to the manager.

    Args:
        worker: The worker's client, as its administrator.
        manager: The manager's client, with the right to write its Secrets.
        wanted: The worker to register.
        done: Gets the steps that were done.
        identity: The uid of the worker's kube-system.
        former: The manager's former credentials; the Secret of their token stays.
    """
    token = await issue_token(
        worker, wanted.name, wanted.origin, lifetime=wanted.lifetime, on_note=done.lines.append
    )
    kubeconfig = build_kubeconfig(wanted.cluster, token.value)
    try:
        await _try(kubeconfig, identity, done)
        secret = kubeconfig_secret(wanted.secret, wanted.namespace, kubeconfig)
        force = wanted.force or wanted.is_known
        await _apply(manager, secret, done, where="manager", force=force)
    except (CliError, ApiError):  # on other errors it may have been written
        await withdraw(worker, token.anchor)
        raise
    done.expiries = _list_expiries(wanted.cluster, token)
    cluster = cluster_manifest(wanted.name, wanted.secret)
    await _apply(manager, cluster, done, where="manager", force=wanted.force)
    gone = await withdraw_former(
        worker, wanted.name, wanted.origin, newest=token.anchor, former=former.anchor
    )
    done.lines.extend(f"{wanted.name}: token of secret/{anchor} withdrawn" for anchor in gone)
    if former.wider:
        lost = former.wider - await find_wider(kubeconfig)
        done.lines.extend(describe_lost(wanted.name, lost))
    if former.anchor:
        done.lines.append(
            f"{wanted.name}: the former token is good until the next rotation; delete "
            f"secret/{former.anchor} in kueue-system there to withdraw it now"
        )


def _list_expiries(cluster: Json, token: Token) -> tuple[Expiry, ...]:
    """Return when a new token and the CA end, the first to end first."""
    found = list(find_expiries(cluster, {}))
    if token.expires_at is not None:
        found.append(Expiry(what=TOKEN, ends_at=token.expires_at))
    return tuple(sorted(found, key=lambda expiry: expiry.ends_at))


async def _try(kubeconfig: Json, identity: str, done: BootstrapResult) -> None:
    """Use the new kubeconfig once, as the manager will.

    Raises:
        CliError: it leads to another cluster.
    """
    credentials = await Credentials.from_kubeconfig_dict(kubeconfig)
    try:
        found = await RIGHTS.run(lambda: with_worker(credentials, identify), until=bool)
    except WorkerError as error:
        done.lines.append(f"warning: not reachable from here with the new kubeconfig: {error}")
        return
    if found != identity:
        raise CliError(
            f"{credentials.server} is another cluster than the one that was prepared"
            if found
            else "the new account may not read namespace kube-system; does RBAC decide there?"
        )


async def _apply(
    client: KubeClient, manifest: Json, done: BootstrapResult, *, where: str, force: bool
) -> None:
    resource = await Applier(client).find_resource(manifest["apiVersion"], manifest["kind"])
    metadata = manifest["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    before = ""
    with contextlib.suppress(NotFound):
        before = _version(await client.get(resource, name, namespace=namespace))
    title = f"{where}: {manifest['kind'].lower()}/{name}"
    try:
        written: Json = await client.patch(
            resource,
            name,
            manifest,
            namespace=namespace,
            patch_type=PatchType.APPLY,
            field_manager=PROJECTION_FIELD_MANAGER,
            force=force,
        )
    except Conflict as error:
        raise CliError(f"{title}: {error.server_message}; --force takes the fields over") from error
    same = before == _version(written)
    done.lines.append(f"{title} {'unchanged' if same else 'configured' if before else 'created'}")


def _version(obj: Json) -> str:
    return text(mapping(obj, "metadata").get("resourceVersion"))


async def wait_until_active(
    client: KubeClient, name: str, done: BootstrapResult, *, seconds: float
) -> None:
    """Wait for the manager's condition of a MultiKueueCluster; `done` gets its message."""

    def accept(obj: Json) -> bool:
        return _judge(obj, done)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait_for(client, resources.MULTIKUEUE_CLUSTERS, name, accept)


def _judge(obj: Json, done: BootstrapResult) -> bool:
    cluster = decode(MultiKueueCluster, obj)
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is None:
        done.message = "no manager has looked at it; does one run here?"
        return False
    done.active, done.message = active.status == "True", active.message
    return done.active


async def listed_in(client: KubeClient, name: str) -> list[str]:
    """Return the MultiKueueConfigs that list a worker."""
    configs = (await client.list(resources.MULTIKUEUE_CONFIGS)).items
    return sorted(
        config["metadata"]["name"]
        for config in configs
        if name in (mapping(config, "spec").get("clusters") or ())
    )
