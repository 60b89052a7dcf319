"""Pods, one by one and in groups."""

from __future__ import annotations

from functools import partial

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.pod.integration import PodKind
from multiqueue.jobs.pod.multikueue import PodAdapter
from multiqueue.jobs.pod.source import (
    BY_GROUP,
    BY_REPLICA_OWNER,
    MANAGED,
    PodSource,
    by_group,
    by_replica_owner,
)
from multiqueue.jobs.pod.webhook import PodWebhook, find_scope
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for pods."""
    kind = PodKind(row)
    return SupportedKind(
        integration=kind,
        webhook=PodWebhook(kind),
        adapter=PodAdapter(kind),
        source=PodSource,
        indexes={BY_GROUP: by_group, BY_REPLICA_OWNER: by_replica_owner},
        label_selector=MANAGED,
        scope=partial(find_scope, kind.name),
    )
