"""Reads the objects of the manager and its workers for planning. Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson

from multiqueue.api.config import Configuration
from multiqueue.api.validation.access import items, mapping, text
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.lint_cluster import ClusterReading, read_cluster
from multiqueue.cli.output import echo
from multiqueue.cli.projection.access import identify
from multiqueue.cli.projection.kind_rights import SentKinds, list_sent_kinds
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import ApiError, Forbidden, NotFound
from multiqueue.kube.resources import Resource
from multiqueue.lint.world import LintInput, LintSurroundings, name_of
from multiqueue.projection.fleet import (
    CONFIG_MAP,
    CONFIG_MAP_KEY,
    FleetConfiguration,
    FleetError,
    load_fleet,
)
from multiqueue.projection.worker_role import Right, grants
from multiqueue.workers.kubeconfigs.stored import read_config

MANAGER_KINDS = (
    resources.ADMISSION_CHECKS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.MULTIKUEUE_CLUSTERS,
    resources.MULTIKUEUE_CONFIGS,
    resources.NAMESPACES,
    resources.RESOURCE_FLAVORS,
    resources.TOPOLOGIES,
    resources.WORKLOAD_PRIORITY_CLASSES,
)
WORKER_KINDS = (
    resources.NAMESPACES,
    resources.TOPOLOGIES,
    resources.RESOURCE_FLAVORS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.COHORTS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
)
NAMED = (resources.JOBS, resources.WORKLOADS)
"""The kinds whose names must be free on a worker."""
NO_NAMESPACE = "-"
"""Not a name that a namespace can have."""
SERVED = (
    resources.WORKLOADS,
    resources.CLUSTER_QUEUES,
    resources.LOCAL_QUEUES,
    resources.RESOURCE_FLAVORS,
    resources.WORKLOAD_PRIORITY_CLASSES,
    resources.JOBS,
)
"""The kinds that a worker must serve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerView:
    """The manager's side of a projection.

    Attributes:
        names: Jobs and Workloads, if they could be read.
        origin: The uid of its kube-system, which is the value of the label on projected objects.
        fleet: The fleet file; None if there is none.
        kinds: The kinds of jobs beside Job that it sends to workers.
    """

    reading: ClusterReading
    world: LintInput
    names: LintInput
    origin: str
    config: Configuration
    fleet: FleetConfiguration | None
    kinds: SentKinds

    def beside(self, workers: Mapping[str, LintInput]) -> LintInput:
        """Return the manager's objects for rules that compare them with workers."""
        complete = frozenset(self.reading.complete)
        around = LintSurroundings(complete=complete, config=self.config, workers=workers)
        return LintInput(self.reading.entries, around)

    def strangers(self) -> list[str]:
        """Return the fleet file's workers without a MultiKueueCluster: misspelt or future."""
        declared = self.fleet.workers if self.fleet is not None else ()
        known = self.world.get
        return [w.name for w in declared if known("MultiKueueCluster", w.name) is None]

    def clusters(self, names: Sequence[str]) -> list[str]:
        """Return the selected workers: those named, or all.

        Raises:
            UsageProblem: a name is no worker's.
        """
        known = [name_of(cluster) for cluster in self.world.all("MultiKueueCluster")]
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "there are none"
                raise UsageProblem(f'no MultiKueueCluster "{name}" on the manager ({listed})')
        return sorted(set(names or known))


def warn_of_strangers(view: ManagerView) -> None:
    """Warn about sections of the fleet file that belong to no worker."""
    warning = click.style("warning", fg="yellow")
    for name in view.strangers():
        echo(
            f'{warning}: the fleet file names worker "{name}", which is no MultiKueueCluster; '
            f'"multiqueue clusters bootstrap {name}" makes it one',
            err=True,
        )


async def read_manager(
    client: KubeClient, *, namespace: str, fleet_file: str | None
) -> ManagerView:
    """Read the manager's side.

    Raises:
        CliError: something cannot be read.
    """
    fleet = await read_fleet(client, fleet_file, namespace)
    reading = await read_cluster(client, MANAGER_KINDS)
    if reading.skipped:
        raise CliError(f"the manager's cluster: {'; '.join(reading.skipped)}")
    origin = await identify(client)
    if not origin:
        raise CliError('not allowed to read namespace "kube-system" of the manager\'s cluster')
    try:
        config = await read_config(client, namespace)
    except ValueError as error:
        raise CliError(f"the manager's ConfigMap: {error}") from error
    names = await read_cluster(client, NAMED)
    return ManagerView(
        reading=reading,
        world=reading.to_world(),
        names=names.to_world(),
        origin=origin,
        config=config or Configuration(),
        fleet=fleet,
        kinds=await list_sent_kinds(client, config or Configuration()),
    )


async def read_fleet(
    client: KubeClient, source: str | None, namespace: str
) -> FleetConfiguration | None:
    """Return the given fleet file, or the one in the ConfigMap; None if there is none.

    Raises:
        UsageProblem: it cannot be read or used.
    """
    where = f'"{source}"' if source else f'ConfigMap "{namespace}/{CONFIG_MAP}"'
    if source is not None:
        try:
            content = await asyncio.to_thread(Path(source).read_text)
        except OSError as error:
            raise UsageProblem(f"cannot read {where}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UsageProblem(f"cannot read {where}: {error}") from error
    else:
        try:
            found = await client.get(resources.CONFIG_MAPS, CONFIG_MAP, namespace=namespace)
        except (Forbidden, NotFound):
            return None
        content = text(mapping(found, "data").get(CONFIG_MAP_KEY))
        if not content:
            raise UsageProblem(f'{where} has no key "{CONFIG_MAP_KEY}"')
    try:
        return load_fleet(content)
    except FleetError as error:
        raise UsageProblem(f"{where}: {error}") from error


async def ask_rights(client: KubeClient, rights: Iterable[Right]) -> dict[Right, bool]:
    """Ask a cluster which of the rights we have there, in all namespaces.

    One question tells all rights that roles give. Only those that are missing there are asked for
    one by one, since other authorizers may give them.
    """
    asked = list(rights)
    rules = await _list_rules(client)
    rest = [right for right in asked if not any(grants(rule, right) for rule in rules)]
    answers = await asyncio.gather(*(_may(client, right) for right in rest))
    return {**dict.fromkeys(asked, True), **dict(zip(rest, answers, strict=True))}


async def _list_rules(client: KubeClient) -> Sequence[Mapping[str, Any]]:
    """Return the rules of our ClusterRoles that hold in all namespaces; none if they are unknown.

    A review is about one namespace, and tells the rules of its RoleBindings, too. No namespace can
    have the name that is asked about, so it has none.
    """
    review = {
        "apiVersion": resources.SELF_SUBJECT_RULES_REVIEWS.api_version,
        "kind": resources.SELF_SUBJECT_RULES_REVIEWS.kind,
        "spec": {"namespace": NO_NAMESPACE},
    }
    try:
        answer = await client.create(resources.SELF_SUBJECT_RULES_REVIEWS, review)
    except ApiError:
        return ()
    return [rule for _, rule in items(mapping(answer, "status").get("resourceRules"))]


async def _may(client: KubeClient, right: Right) -> bool:
    wanted = {
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "verb": right.verb,
        "name": right.name,
    }
    review = {
        "apiVersion": resources.SELF_SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": resources.SELF_SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": {k: v for k, v in wanted.items() if v}},
    }
    answer = await client.create(resources.SELF_SUBJECT_ACCESS_REVIEWS, review)
    return bool(mapping(answer, "status").get("allowed"))


def right_on(resource: Resource, verb: str) -> Right:
    """Return the right to use a verb on all objects of a kind."""
    return Right(resource.group, resource.plural, verb)


async def read_allowed(client: KubeClient, kinds: Sequence[Resource]) -> ClusterReading:
    """List the kinds that we may list; the others are named as skipped, without a request."""
    rights = await ask_rights(client, (right_on(kind, "list") for kind in kinds))
    allowed = [kind for kind in kinds if rights[right_on(kind, "list")]]
    reading = await read_cluster(client, allowed)
    reading.skipped += [
        f"{kind.kind}: not allowed to list {kind.plural}" for kind in kinds if kind not in allowed
    ]
    return reading


async def read_served(client: KubeClient) -> dict[str, bool]:
    """Return whether a worker serves each kind it needs, by ``jobs.batch/v1``."""
    documents: Mapping[str, frozenset[str]] = {
        version: await _plurals(client, version)
        for version in sorted({kind.api_version for kind in SERVED})
    }
    return {
        f"{kind.plural}.{kind.api_version}": kind.plural in documents[kind.api_version]
        for kind in SERVED
    }


async def _plurals(client: KubeClient, version: str) -> frozenset[str]:
    try:
        answer = await client.request("GET", f"/apis/{version}")
    except NotFound:
        return frozenset()
    return frozenset(row["name"] for row in orjson.loads(answer.body).get("resources") or ())
