"""The drift report of a worker: differences, unknown facts, and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from multiqueue.api.validation.access import Object, text
from multiqueue.lint.world import name_of, namespace_of
from multiqueue.projection.differences import FieldDifference
from multiqueue.projection.plan import Held, HeldReason, SyncAction, SyncPlan, SyncStep


class ReportState(StrEnum):
    """The result of a report."""

    IN_STEP = "InStep"
    DRIFT = "Drift"
    UNKNOWN = "Unknown"


class DriftReason(StrEnum):
    """The kind of a drift."""

    MISSING = "Missing"
    DIFFERS = "Differs"
    LEFT_OVER = "LeftOver"
    RIGHT_MISSING = "RightMissing"
    KIND_NOT_SERVED = "KindNotServed"
    NAME_TAKEN = "NameTaken"
    CREDENTIALS_EXPIRE = "CredentialsExpire"
    SAME_SERVER = "SameServer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One drift; ``field``, ``wanted`` and ``found`` are set if a field differs."""

    reason: DriftReason
    message: str
    kind: str = ""
    namespace: str = ""
    name: str = ""
    field: str = ""
    wanted: Any = None
    found: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return the drift for programs; the keys are stable."""
        return {key: getattr(self, key) for key in self.__slots__} | {"reason": str(self.reason)}


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """The findings about one worker.

    Attributes:
        unknown: Relevant facts that could not be read, each with the reason.
        warnings: Oddities that sync cannot change.
        expires_at: When the manager's credentials end, if they say so.
    """

    worker: str
    drift: list[Drift] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    expires_at: datetime | None = None

    @property
    def state(self) -> ReportState:
        """The result; unknown facts come first, because they may hide anything."""
        if self.unknown:
            return ReportState.UNKNOWN
        return ReportState.DRIFT if self.drift else ReportState.IN_STEP

    def to_dict(self) -> dict[str, Any]:
        """Return the report for programs; the keys are stable."""
        return {
            "worker": self.worker,
            "state": str(self.state),
            "drift": [drift.to_dict() for drift in self.drift],
            "unknown": self.unknown,
            "warnings": self.warnings,
            "credentialsExpireAt": self.expires_at.isoformat() if self.expires_at else None,
        }


def add_plan(report: WorkerReport, plan: SyncPlan) -> None:
    """Add the changes and the problems of a plan."""
    report.unknown.extend(plan.problems)
    changes: tuple[SyncStep | Held, ...] = (*plan.steps, *plan.held)
    for change in filter(lambda c: not _is_deletion(c), changes):
        if isinstance(change, Held) and change.reason is HeldReason.UNSEEN:
            _add_unseen(report, change)
        else:
            report.drift.extend(_drifts(change))
    report.drift.extend(_left_over(plan.left_over))


def _is_deletion(change: SyncStep | Held) -> bool:
    if isinstance(change, SyncStep):
        return change.action is SyncAction.DELETE
    return change.actual is change.obj


def _add_unseen(report: WorkerReport, held: Held) -> None:
    """Note what cannot be read; for a namespace a warning is enough: its LocalQueue shows it."""
    note = f"{text(held.obj.get('kind'))} objects were not looked at: {held.message}"
    notes = report.warnings if held.obj["kind"] == "Namespace" else report.unknown
    if note not in notes:
        notes.append(note)


def _drifts(change: SyncStep | Held) -> Iterator[Drift]:
    if change.actual is None:
        yield _of(change.obj, DriftReason.MISSING, "is not there")
        return
    whose = f"; {change.message}" if isinstance(change, Held) else ""
    for each in change.differences:
        message = f"{_words(each)}{whose}"
        yield _of(change.obj, DriftReason.DIFFERS, message, each)


def _words(each: FieldDifference) -> str:
    if each.wanted is None:
        return f"{each.path} is {_short(each.found)} and is not declared any more"
    if each.found is None:
        return f"{each.path} is missing; declared: {_short(each.wanted)}"
    return f"{each.path} is {_short(each.found)}; declared: {_short(each.wanted)}"


def _short(value: Any) -> str:
    words = value if isinstance(value, str) else orjson.dumps(value).decode()
    return words if len(words) <= 80 else f"{words[:77]}..."


def _left_over(objects: Sequence[Object]) -> Iterator[Drift]:
    for obj in objects:
        yield _of(obj, DriftReason.LEFT_OVER, "was projected and is not declared any more")


def _of(
    obj: Object, reason: DriftReason, message: str, difference: FieldDifference | None = None
) -> Drift:
    return Drift(
        reason=reason,
        message=message,
        kind=text(obj.get("kind")),
        namespace=namespace_of(obj),
        name=name_of(obj),
        field=difference.path if difference else "",
        wanted=difference.wanted if difference else None,
        found=difference.found if difference else None,
    )


def worst(reports: Iterable[WorkerReport]) -> ReportState:
    """Return the worst result of all reports."""
    states = {report.state for report in reports}
    for state in (ReportState.UNKNOWN, ReportState.DRIFT):
        if state in states:
            return state
    return ReportState.IN_STEP
