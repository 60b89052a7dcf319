"""The conditions of a MultiKueueCluster beside Active: those of this program. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from multiqueue.api.conditions import (
    CREDENTIALS_EXPIRING,
    ORIGIN_SHARED,
    SERVER_KNOWN,
    ClusterReason,
    find_condition,
    set_condition,
)
from multiqueue.api.names import MANAGER, MULTIKUEUE_ORIGIN
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from multiqueue.workers.owner import ManagerIdentity

SERVER_WORDS = "the uid of its namespace kube-system is "


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNote:
    """A condition that is written only once it has been true.

    Attributes:
        type_: Its type.
        holds: Whether it is true.
        reason: Why it is, or is not.
        message: The explanation; recorded as a Warning when the condition becomes true.
    """

    type_: str
    holds: bool
    reason: ClusterReason
    message: str


def note_expiry(source: SafeKubeconfig, now: datetime) -> ClusterNote:
    """Say whether credentials should be renewed now."""
    ending = [expiry for expiry in source.expiries if expiry.warn_at <= now]
    if not ending:
        message = source.expiries[0].describe() if source.expiries else "no end is known"
        return ClusterNote(
            type_=CREDENTIALS_EXPIRING,
            holds=False,
            reason=ClusterReason.NOT_EXPIRING,
            message=message,
        )
    words = ", ".join(expiry.describe() for expiry in ending)
    return ClusterNote(
        type_=CREDENTIALS_EXPIRING,
        holds=True,
        reason=ClusterReason.EXPIRING,
        message=f"{words}; put a new kubeconfig in its place, which disturbs nothing",
    )


def note_twins(twins: Collection[str], owner: ManagerIdentity) -> ClusterNote:
    """Say whether another manager with our origin has objects on the worker."""
    if not twins:
        return ClusterNote(
            type_=ORIGIN_SHARED,
            holds=False,
            reason=ClusterReason.NO_OTHER_MANAGER,
            message="nobody else has objects with our origin there",
        )
    return ClusterNote(
        type_=ORIGIN_SHARED,
        holds=True,
        reason=ClusterReason.OTHER_MANAGER,
        message=(
            f'the worker has objects with our origin "{owner.origin}" of the manager on cluster '
            f"{', '.join(sorted(twins))}; they are left alone; give each manager a "
            "multiKueue.origin of its own; of one that is gone, such as this one before it moved, "
            f"take {MANAGER} off what it left there: kubectl annotate workloads,jobs -A -l "
            f"{MULTIKUEUE_ORIGIN}={owner.origin} {MANAGER}-"
        ),
    )


def note_server(
    conditions: tuple[Condition, ...], identity: str, *, now: datetime, observed_generation: int
) -> tuple[Condition, ...]:
    """Return the conditions with the identity of the server that was used last, if it is known.

    The next manager finds it there: if the kubeconfig leads elsewhere meanwhile, jobs still run on
    the first server.
    """
    if not identity:
        return conditions
    return set_condition(
        conditions,
        type_=SERVER_KNOWN,
        status=True,
        reason=ClusterReason.IDENTIFIED,
        message=f"{SERVER_WORDS}{identity}",
        now=now,
        observed_generation=observed_generation,
    )


def find_server(conditions: tuple[Condition, ...]) -> str:
    """Return the identity of the server that was used last; "" if it is not known."""
    known = find_condition(conditions, SERVER_KNOWN)
    words = known.message if known is not None else ""
    return words.removeprefix(SERVER_WORDS) if words.startswith(SERVER_WORDS) else ""


def find_next_warning(source: SafeKubeconfig, now: datetime) -> datetime | None:
    """Return when the next warning about a credential is due."""
    return min((e.warn_at for e in source.expiries if e.warn_at > now), default=None)


def apply_notes(
    conditions: tuple[Condition, ...],
    notes: Iterable[ClusterNote],
    *,
    now: datetime,
    observed_generation: int,
) -> tuple[Condition, ...]:
    """Return the conditions with the notes among them."""
    for note in notes:
        if note.holds or find_condition(conditions, note.type_) is not None:
            conditions = set_condition(
                conditions,
                type_=note.type_,
                status=note.holds,
                reason=note.reason,
                message=note.message,
                now=now,
                observed_generation=observed_generation,
            )
    return conditions


def list_news(conditions: tuple[Condition, ...], notes: Iterable[ClusterNote]) -> list[ClusterNote]:
    """Return the notes that are true and were not before."""
    news = []
    for note in notes:
        known = find_condition(conditions, note.type_)
        if note.holds and (known is None or known.status != "True"):
            news.append(note)
    return news
