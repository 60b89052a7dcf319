"""What a move to another worker costs a holder of quota, and what forbids it (P-95, P-99). Pure."""

from __future__ import annotations

from typing import NamedTuple

from multiqueue.api.disruptions import StopCause
from multiqueue.engine.disruption.budget import Spending
from multiqueue.engine.disruption.cost import NO_HABITS, Loss, started_at
from multiqueue.engine.disruption.governance import Governed
from multiqueue.engine.disruption.protection import HoldOff, find_protection
from multiqueue.engine.queues.entry import Entry
from multiqueue.model.disruption_policy import format_seconds

CAUSE = StopCause.MIGRATION


class MoveWeight(NamedTuple):
    """What a move costs, for how long the job is told before, and why it may not be moved now.

    Shape: ``gain`` is how many times the move has to be worth; ``notice`` is in seconds.
    """

    loss: Loss
    gain: int
    notice: int
    hold_off: HoldOff | None


def weigh_move(
    entry: Entry,
    governed: Governed,
    loss: Loss,
    spending: Spending,
    now: int,
    *,
    kept: HoldOff | None = None,
) -> MoveWeight | None:
    """Weigh the move of one holder of quota.

    None for one that is never moved: its policy does not say so, or it does not save its work
    before it is stopped.

    Args:
        entry: The holder.
        governed: What governs its queue.
        loss: What a stop would lose.
        spending: What is left of the budgets.
        now: The time.
        kept: Why nobody may stop it, if it is non-preemptible.
    """
    rules, workload = governed.rules, entry.workload
    saves = workload.saves or NO_HABITS
    saves_first = saves.on_notice or saves.save_seconds is not None
    if rules.problem or not rules.gain or not saves_first or not entry.admitted:
        return None
    whose = entry.charged, workload.namespace, CAUSE, loss.cost
    hold_off = kept or find_protection(
        started_at(entry), workload.stops, CAUSE, rules.protection, concede=0, now=now
    )
    hold_off = hold_off or _find_last_move(entry, rules.protection.window, now)
    hold_off = hold_off or spending.refuse(*whose)
    return MoveWeight(loss, rules.gain, saves.notice_length(rules.cost.longest_notice), hold_off)


def _find_last_move(entry: Entry, window: int, now: int) -> HoldOff | None:
    moved_at = (int(s.at.timestamp()) for s in entry.workload.stops if s.cause is CAUSE)
    until = max(moved_at, default=now - window) + window
    if until <= now:
        return None
    return HoldOff(until, "maxPreemptions", f"it was moved within {format_seconds(window)}")
