"""Cordon and drain as conditions of a MultiKueueCluster: ``Cordoned`` and ``Drained``. Pure.

They exist only while a cordon or drain is ordered. ``Active`` is never touched, so clients that
read nothing else, as upstream, see no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from multiqueue.api import v1beta2 as api
from multiqueue.api.cluster_orders import Orders
from multiqueue.api.conditions import (
    CORDONED,
    DRAINED,
    DrainReason,
    find_condition,
    set_condition,
)
from multiqueue.api.v1beta2.meta import Condition
from multiqueue.drain.chance import Chance
from multiqueue.drain.report import DrainReport, is_news, parse_report


def build_conditions(name: str, orders: Orders, drained: Condition | None) -> list[Condition]:
    """Return the conditions that a worker must have.

    Args:
        name: The name of the worker.
        orders: The cordon and drain orders for it.
        drained: How far its drain is; None: there is none.
    """
    if not orders.cordoned:
        return []
    message = describe_cordon(name, orders)
    if orders.problem:
        unclear = f"Nothing is moved: {orders.problem}"
        return [
            _true(CORDONED, DrainReason.UNCLEAR, message),
            _false(DRAINED, DrainReason.UNCLEAR, unclear),
        ]
    reason = DrainReason.CORDONED if drained is None else DrainReason.DRAINING
    return [_true(CORDONED, reason, message), *([drained] if drained is not None else [])]


def describe_cordon(name: str, orders: Orders) -> str:
    """Return the message of Cordoned; it names the order that both conditions are about."""
    order = f'; the order is "{orders.text}"' if orders.text else ""
    return f'Nothing new goes to "{name}": it {orders.refusal}{order}'


def describe_drain(chances: Mapping[str, Chance], report: DrainReport) -> Condition:
    """Return the condition Drained of a worker that is being drained, or was.

    Args:
        chances: For each Workload that stays, whether it could run elsewhere.
        report: How far the drain is.
    """
    message = str(report)
    if not report.left and not report.moving:
        return _true(DRAINED, DrainReason.DRAINED, message)
    if report.trouble:
        return _false(DRAINED, DrainReason.WAITING, message)
    if report.ends_at is not None or not report.staying:
        return _false(DRAINED, DrainReason.DRAINING, message)
    if any(chances.get(key) is Chance.ROOM for key in report.staying):
        return _false(DRAINED, DrainReason.WAITING, message)
    return _false(DRAINED, DrainReason.STUCK, message)


def find_unfinished(cluster: api.MultiKueueCluster) -> DrainReport | None:
    """Return the report of an earlier manager's unfinished drain; None: there is none."""
    condition = find_condition(cluster.status.conditions, DRAINED)
    if condition is None or condition.status == "True" or condition.reason == DrainReason.UNCLEAR:
        return None
    return parse_report(condition.message)


def with_conditions(
    before: tuple[Condition, ...], wanted: Sequence[Condition], *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """Return the wanted conditions, and all others as they were.

    The same tuple if no change is worth a write.
    """
    after = tuple(c for c in before if c.type not in {CORDONED, DRAINED})
    for condition in wanted:
        known = find_condition(before, condition.type)
        is_same = known is not None and _says_as_much(known, condition)
        after = set_condition(
            after if known is None else (*after, known),
            type_=condition.type,
            status=condition.status == "True",
            reason=condition.reason,
            message=known.message if known is not None and is_same else condition.message,
            now=now,
            observed_generation=generation,
        )
    by_type = {condition.type: condition for condition in before}
    if len(after) == len(before) and all(by_type.get(c.type) == c for c in after):
        return before
    return after


def _says_as_much(old: Condition, new: Condition) -> bool:
    if (old.status, old.reason) != (new.status, new.reason):
        return False
    if new.type == CORDONED:
        return old.message == new.message
    return not is_news(old.message, new.message)


def _true(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="True", reason=reason, message=message)


def _false(type_: str, reason: str, message: str) -> Condition:
    return Condition(type=type_, status="False", reason=reason, message=message)
