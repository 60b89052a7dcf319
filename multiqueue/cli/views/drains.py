"""The texts about the cordon or drain of a worker, and the table of its forecast. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiqueue.api.cluster_orders import read_orders
from multiqueue.api.conditions import CORDONED, DRAINED, DrainReason, find_condition
from multiqueue.api.v1beta2 import MultiKueueCluster
from multiqueue.drain.conditions import describe_cordon
from multiqueue.drain.report import parse_report
from multiqueue.views.ages import format_seconds

if TYPE_CHECKING:
    from multiqueue.drain.plan import DrainForecast

PLAN_HEADERS = ("WORKLOAD", "PRIORITY", "GPUS", "RAN", "GPU-HOURS LOST", "GRACE", "THEN", "WHY")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Whether a worker is in use.

    Attributes:
        state: ``InUse``, ``Cordoned``, ``Draining``, ``Waiting``, ``Stuck``, ``Drained``, ...
        message: The progress, or the reason; empty for a worker in use.
        reason: Why it is cordoned or drained, in the user's words; empty: none were given.
        is_seen: Whether a manager has acted on the order.
    """

    state: str = "InUse"
    message: str = ""
    reason: str = ""
    is_seen: bool = True

    @property
    def words(self) -> str:
        """The state for people."""
        return "In use" if self.state == "InUse" else self.state

    @property
    def told(self) -> str:
        """The reason and the progress."""
        return ": ".join(filter(None, (self.reason, self.message)))

    @property
    def is_drained(self) -> bool:
        """Whether none of our objects is left there."""
        return self.state == DrainReason.DRAINED

    @property
    def needs_help(self) -> bool:
        """Whether nothing more will happen until somebody acts."""
        return self.state in {DrainReason.STUCK, DrainReason.UNCLEAR}

    def to_dict(self) -> dict[str, Any]:
        """Return the state for ``-o json``."""
        report = parse_report(self.message)
        return {
            "state": self.state,
            "message": self.message or None,
            "reason": self.reason or None,
            "moved": report.moved,
            "stoppedByForce": report.stopped,
            "moving": report.moving,
            "left": report.left,
            "lostGpuHours": report.lost_gpu_hours,
            "estimatedEnd": report.ends_at.isoformat() if report.ends_at else None,
        }


IN_USE = Use()


def describe_order(text: str) -> str:
    """Return the options of an order, in words that follow it."""
    return "" if text == "true" else f" ({text.replace(',', ', ')})"


def view_use(cluster: MultiKueueCluster) -> Use:
    """Read whether a worker is in use: the order, and what the manager did about it."""
    orders = read_orders(cluster.metadata.annotations)
    conditions = cluster.status.conditions
    cordoned, drained = find_condition(conditions, CORDONED), find_condition(conditions, DRAINED)
    if not orders.cordoned:
        return IN_USE
    if orders.problem:
        return Use(state=DrainReason.UNCLEAR, message=orders.problem)
    name = cluster.metadata.name
    is_seen = cordoned is not None and cordoned.message == describe_cordon(name, orders)
    if orders.drain is None:
        return Use(state=DrainReason.CORDONED, reason=orders.reason, is_seen=is_seen)
    if drained is None or not is_seen:
        return Use(state=DrainReason.DRAINING, reason=orders.reason, is_seen=False)
    return Use(state=drained.reason, message=drained.message, reason=orders.reason)


def list_plan_rows(plan: DrainForecast) -> list[list[str | int]]:
    """Return a row for each Workload of the forecast of a drain."""
    return [
        [
            move.resident.key,
            move.resident.priority,
            move.resident.gpus,
            format_seconds((plan.now - move.resident.admitted_at).total_seconds()),
            f"{move.resident.lost_gpu_seconds(plan.now) / 3600:.2f}",
            format_seconds(move.resident.stop.total_seconds()),
            move.then,
            move.why,
        ]
        for move in plan.moves
    ]
