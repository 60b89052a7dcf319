"""The rights on a worker that a manager needs for the kinds of jobs that it sends there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.job_kinds import KnownKind
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import JobKind
from multiqueue.jobs.declared.compiled import row_of
from multiqueue.jobs.declared.external import list_external_frameworks
from multiqueue.jobs.rights import (
    WORKER_ROLE,
    build_declared_roles,
    build_role,
    build_worker_aggregate,
    worker_rules,
)
from multiqueue.jobs.setup import enabled_kinds, load_kind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.discovery import find_served_kind
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import JOB_KINDS
from multiqueue.projection.worker_role import ACCOUNT, Right, rights_in

Json = dict[str, Any]
ALWAYS = "batch/job"
"""The kind whose rights are part of every worker's role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentKinds:
    """The kinds beside Job that a manager sends to workers.

    Attributes:
        built_in: Those that its Configuration enables.
        declared: Those of JobKinds, and the external ones.
    """

    built_in: Sequence[KnownKind] = ()
    declared: Sequence[KnownKind] = ()

    @property
    def all(self) -> Sequence[KnownKind]:
        """Return all of them."""
        return (*self.built_in, *self.declared)

    def roles(self) -> list[Json]:
        """Return the ClusterRoles and bindings for a worker."""
        rules = [rule for row in self.built_in for rule in worker_rules(row)]
        made = list(build_role(WORKER_ROLE, ACCOUNT, rules)) if rules else []
        return [
            *made,
            *build_worker_aggregate(ACCOUNT),
            *(build_declared_roles(row)[1] for row in self.declared),
        ]


async def list_sent_kinds(manager: KubeClient, config: Configuration) -> SentKinds:
    """Return the kinds that a manager sends to workers.

    Args:
        manager: The client of the manager's cluster.
        config: The manager's Configuration.
    """
    built_in = [
        row
        for row in enabled_kinds(config)
        if row.framework != ALWAYS and load_kind(row).adapter is not None
    ]
    declared = {(row.group, row.kind): row for row in await _list_external(manager, config)}
    try:
        listed = await manager.list(JOB_KINDS, decode=partial(decode, JobKind))
    except (Forbidden, NotFound):
        found: Sequence[JobKind] = ()
    else:
        found = listed.items
    for job_kind in found:
        if job_kind.spec.multi_kueue is not None:
            row = row_of(job_kind.spec)
            declared.setdefault((row.group, row.kind), row)
    return SentKinds(built_in=built_in, declared=list(declared.values()))


async def _list_external(manager: KubeClient, config: Configuration) -> list[KnownKind]:
    gvks = [each.gvk for each in list_external_frameworks(config) if each.runs_on_workers]
    served = await asyncio.gather(
        *(find_served_kind(manager, gvk.api_version, gvk.kind) for gvk in gvks)
    )
    return [
        KnownKind(kind=gvk.kind, group=gvk.group, version=gvk.version, plural=found.resource.plural)
        for gvk, found in zip(gvks, served, strict=True)
        if found is not None
    ]


async def split_served(
    worker: KubeClient, kinds: SentKinds
) -> tuple[Sequence[Right], Sequence[KnownKind]]:
    """Return the rights for the kinds that a worker serves, and the kinds that it does not."""
    rows = kinds.all
    served = await asyncio.gather(
        *(find_served_kind(worker, row.api_version, row.kind) for row in rows)
    )
    rights = {
        right
        for row, found in zip(rows, served, strict=True)
        if found is not None
        for right in rights_in(worker_rules(replace(row, plural=found.resource.plural)))
    }
    missing = [row for row, found in zip(rows, served, strict=True) if found is None]
    return sorted(rights), missing
