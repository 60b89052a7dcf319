"""What a MultiKueueCluster says about its connection. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from multiqueue.api.conditions import ClusterReason
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.workers.kubeconfigs.credentials import ConnectionStatus, SafeKubeconfig

FIRST_CHANCE = timedelta(minutes=1)
"""However long a worker was lost when the manager started, it gets this long to answer before its
jobs are given up."""


def describe_connected(
    source: SafeKubeconfig,
    *,
    missing: Sequence[GroupVersionKind] = (),
    excesses: Sequence[str] = (),
    trouble: str = "",
    refusal: str = "",
) -> ConnectionStatus:
    """Say that a worker is connected, and mention its problems.

    Args:
        source: The kubeconfig in use.
        missing: Job kinds that it does not serve.
        excesses: Which of its answers exceed the size limits.
        trouble: Why a newer kubeconfig is not used; empty if there is none.
        refusal: Why nothing more is sent to it, in words that go after its name; empty if it is.
    """
    message = "Connected"
    if missing:
        message += f"; not served: {', '.join(map(str, missing))}"
    if source.expiries:
        message += f"; {source.expiries[0].describe()}"
    message += "".join(f"; {excess}" for excess in excesses)
    if refusal:
        message += f"; it {refusal}"
    if trouble:
        message += f"; still with the kubeconfig before, for the new one does not work: {trouble}"
    return ConnectionStatus(active=True, reason=ClusterReason.ACTIVE, message=message)


def first_lost_at(
    condition_false_since: datetime | None, *, now: datetime, timeout: timedelta
) -> datetime:
    """Since when a worker counts as lost when the manager starts.

    The Active condition keeps the time across restarts. But no worker is given up before this
    manager had a chance to connect, because the manager itself may have been cut off.
    """
    if condition_false_since is None:
        return now
    return min(now, max(condition_false_since, now - timeout + FIRST_CHANCE))
