"""What a migration changed for jobs: those running, those waiting, and quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from multiqueue.api.validation.access import has_condition, items, mapping, number, text
from multiqueue.cli.migration.installation import Installation, key_of

Workloads = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOutcome:
    """The Workloads of before and what became of them; the tuples have names.

    Attributes:
        running: How many ran before.
        still_running: How many of these run with the same admission.
        ended: How many of these finished, or were deleted with their job.
        changed: Those that were stopped, moved or admitted anew: there should be none.
        waiting: How many waited before.
        admitted: How many of these got quota since.
        lost: Those that waited and are gone or were made anew although their job may still be
            there.
        is_order_kept: Whether those that still wait stand in the same order.
    """

    running: int
    still_running: int
    ended: int
    changed: tuple[str, ...]
    waiting: int
    admitted: int
    lost: tuple[str, ...]
    is_order_kept: bool

    @property
    def is_good(self) -> bool:
        """Whether no job was stopped, lost or overtaken."""
        return not self.changed and not self.lost and self.is_order_kept

    def to_dict(self) -> dict[str, Any]:
        """Return it for ``-o json``."""
        return {**asdict(self), "is_good": self.is_good}


def compare_workloads(before: Installation, after: Installation) -> MigrationOutcome:
    """Compare the Workloads of a backup with those of now."""
    old, new = _open_workloads(before), _by_name(after)
    running = {name for name, workload in old.items() if _has_quota(workload)}
    waiting = old.keys() - running
    finished = {name for name, workload in new.items() if has_condition(workload, "Finished")}
    ended = {name for name in running if name in finished or name not in new}
    changed = {n for n in running - ended if _running_part(old[n]) != _running_part(new[n])}
    lost = {n for n in waiting if n not in new or _uid(old[n]) != _uid(new[n])} - finished
    admitted = {n for n in waiting - lost if n in finished or _has_quota(new[n])}
    left = waiting - lost - admitted
    return MigrationOutcome(
        running=len(running),
        still_running=len(running - ended - changed),
        ended=len(ended),
        changed=tuple(sorted(changed)),
        waiting=len(waiting),
        admitted=len(admitted),
        lost=tuple(sorted(lost)),
        is_order_kept=_order(old, left) == _order(new, left),
    )


def _by_name(found: Installation) -> Workloads:
    return {key_of(workload): workload for workload in found.of("Workload")}


def _open_workloads(found: Installation) -> Workloads:
    return {n: w for n, w in _by_name(found).items() if not has_condition(w, "Finished")}


def _has_quota(workload: Mapping[str, Any]) -> bool:
    return has_condition(workload, "QuotaReserved")


def _uid(workload: Mapping[str, Any]) -> str:
    return text(mapping(workload, "metadata").get("uid"))


def _running_part(workload: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what changes if a job is stopped and admitted again."""
    conditions = items(mapping(workload, "status").get("conditions"))
    since = [
        (each.get("status"), each.get("lastTransitionTime"))
        for _, each in conditions
        if each.get("type") == "QuotaReserved"
    ]
    admission = mapping(workload, "status", "admission")
    return _uid(workload), since, admission.get("clusterQueue"), _assigned(admission)


def _assigned(admission: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each.get("name"), each.get("count"), dict(mapping(each, "flavors")))
        for _, each in items(admission.get("podSetAssignments"))
    ]


def _order(workloads: Workloads, names: set[str]) -> list[str]:
    def place(name: str) -> tuple[Any, ...]:
        workload = workloads[name]
        metadata, spec = mapping(workload, "metadata"), mapping(workload, "spec")
        created = text(metadata.get("creationTimestamp"))
        return spec.get("queueName"), -number(spec.get("priority")), created, name

    return sorted(names, key=place)
