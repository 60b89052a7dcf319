"""AppWrapper: any objects with pods that are queued together."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.appwrapper.integration import AppWrapper
from multiqueue.jobs.appwrapper.multikueue import AppWrapperAdapter
from multiqueue.jobs.appwrapper.webhook import AppWrapperWebhook
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for AppWrappers."""
    kind = AppWrapper(row)
    return SupportedKind(
        integration=kind, webhook=AppWrapperWebhook(kind), adapter=AppWrapperAdapter(kind)
    )
