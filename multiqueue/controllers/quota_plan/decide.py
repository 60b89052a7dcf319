"""What the status of a QuotaPlan says next, and which change begins. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from multiqueue.api.names import APPROVED_BY
from multiqueue.api.v1alpha1 import (
    PlanChange,
    PlanMove,
    PlanProposal,
    QuotaPlan,
    QuotaPlanStatus,
)
from multiqueue.api.v1alpha1.quota_plan import MAX_STATES
from multiqueue.api.v1beta2.meta import format_time, parse_time
from multiqueue.controllers.quota_plan.changes import (
    build_change,
    build_state,
    build_way_back,
    explain_move,
    read_moves,
    read_state,
)
from multiqueue.controllers.quota_plan.guard import QueueHistory, find_harm
from multiqueue.controllers.quota_plan.propose import (
    MONTH,
    MeasuredDemand,
    PlanRules,
    Proposal,
    QuotaKey,
    QuotaMove,
    QuotaNow,
    propose,
)
from multiqueue.lib.amount import Amount
from multiqueue.model.resources import format_amount

LEARNING_EVERY = timedelta(hours=1)
"""How often it is looked at whether enough is known."""
AUTOMATIC = "Automatic"
NOTE = "; spec.approved is "
PROBLEM = ". The plan cannot be followed either: "

Quotas = Mapping[QuotaKey, Amount]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What is known when a plan is looked at.

    Attributes:
        plan: The plan.
        rules: Its spec as values.
        quotas: The nominal quotas now.
        demand: The measured demand.
        held: What Workloads hold now, by quota.
        obstacle: Why nothing is applied by itself now; empty: nothing is in the way.
    """

    plan: QuotaPlan
    rules: PlanRules
    quotas: Quotas
    demand: Mapping[QuotaKey, MeasuredDemand]
    held: Quotas
    obstacle: str = ""


def with_problem(plan: QuotaPlan, message: str) -> QuotaPlanStatus:
    """Return the status of a plan that cannot be followed; one that is Returned stays so."""
    status = plan.status
    if _is_returned(plan):
        told = f"{_tell_return(status)}{PROBLEM}{message}"
        return msgspec.structs.replace(status, message=told)
    return msgspec.structs.replace(
        status, state="Invalid", message=message, proposal=None, looked_at=""
    )


def with_proposal(view: PlanView, now: datetime) -> QuotaPlanStatus:
    """Return the status with a proposal that is up to date, and what is to be done about it."""
    view = replace(view, plan=_with_watch(view, now))
    status = view.plan.status
    if _is_returned(view.plan):
        return msgspec.structs.replace(status, message=_tell_return(status))
    if view.plan.spec.mode == "Paused":
        return msgspec.structs.replace(
            status,
            state="Paused",
            message="spec.mode is Paused: demand is measured, and nothing is proposed",
            proposal=None,
            looked_at="",
        )
    basis = _basis(view)
    looked = parse_time(status.looked_at)
    every = LEARNING_EVERY if status.state == "Learning" else view.rules.every
    is_changed = bool(status.basis) and basis != status.basis
    if is_changed or looked is None or not looked <= now < looked + every:
        status = _look(view, basis, now)
    elif not status.basis:  # a change has just ended
        status = msgspec.structs.replace(status, basis=basis)
    if status.proposal is None:
        return msgspec.structs.replace(status, message=_with_note(view, status))
    return msgspec.structs.replace(status, state="Proposed", message=_tell_approval(view, status))


def find_change(view: PlanView, status: QuotaPlanStatus) -> PlanChange | None:
    """Return the change that somebody agrees to, or that is due by itself; None: there is none."""
    approved, proposal = view.plan.spec.approved, status.proposal
    if view.plan.spec.mode == "Paused":
        return None
    if approved and approved != status.handled:
        by = view.plan.metadata.annotations.get(APPROVED_BY, "")
        if proposal is not None and proposal.hash == approved:
            return build_change(approved, read_moves(proposal.moves), by)
        for state in status.states:
            back = _find_way_back(view, status, state.number)
            if back is not None and back.hash == approved:
                return build_change(approved, back.moves, by)
    if proposal is not None and _is_due_by_itself(view, status):
        return build_change(proposal.hash, read_moves(proposal.moves), f"mode {AUTOMATIC}")
    return None


def find_return(
    view: PlanView,
    status: QuotaPlanStatus,
    histories: Mapping[str, QueueHistory],
    now: datetime,
) -> PlanChange | None:
    """Return the change that takes back the last one, if it did harm (P-111), paused or not.

    Args:
        view: What is known.
        status: The status with a proposal that is up to date.
        histories: What the Workloads of the watched queues tell.
        now: The current time.
    """
    if status.watch is None or len(status.states) < 2:
        return None
    since = parse_time(status.states[-1].since) or now
    harm = find_harm(status.watch.queues, histories, view.rules, since=since, now=now)
    back = _find_way_back(view, status, status.states[-2].number) if harm else None
    if back is None:
        return None
    change = build_change(back.hash, back.moves, "spec.guard")
    return msgspec.structs.replace(change, harm=harm)


def begin_change(status: QuotaPlanStatus, change: PlanChange) -> QuotaPlanStatus:
    """Return the status from which any manager can go on with a change."""
    return msgspec.structs.replace(
        status,
        state="Applying",
        message=f"change {change.hash} is being applied: {_tell_moves(read_moves(change.moves))}",
        change=change,
    )


def end_change(plan: QuotaPlan, quotas: Quotas, now: datetime) -> QuotaPlanStatus:
    """Return the status after the last write of a change, which led to these quotas."""
    status, change = plan.status, plan.status.change
    assert change is not None
    undone = {move.key: move.before for move in read_moves(change.moves)}
    number = status.changes + 1
    before = status.states or (build_state(status.changes, {**quotas, **undone}, since="", by=""),)
    after = build_state(number, quotas, since=format_time(now), by=change.by)
    message = f"change {change.hash} was applied"
    message += f"; agreed to by {change.by}" if change.by else ""
    if change.watch is not None:
        message += f"; it is taken back if it does harm until {change.watch.until}"
    if change.harm:
        message = (
            f"the last change was taken back: {change.harm}. Nothing is proposed or applied until "
            "spec changes: change spec.bounds or spec.guard, or set spec.mode to Propose"
        )
    return msgspec.structs.replace(
        status,
        state="Returned" if change.harm else "Applied",
        message=message,
        change=None,
        proposal=None,
        watch=change.watch,
        handled=change.hash if change.hash == plan.spec.approved else status.handled,
        changes=number,
        states=(*before, after)[-MAX_STATES:],
        looked_at=format_time(now),
        basis="",
    )


def drop_change(plan: QuotaPlan, stranger: QuotaMove, now: datetime) -> QuotaPlanStatus:
    """Return the status after somebody else changed a quota in the middle of a change."""
    status, change, key = plan.status, plan.status.change, stranger.key
    assert change is not None
    return msgspec.structs.replace(
        status,
        state="Dropped",
        message=f'change {change.hash} was given up: ClusterQueue "{key.cluster_queue}" has '
        f"another quota of {key.resource} in flavor {key.flavor} than before it and after it. Set "
        f"the quotas by hand; the change was: {_tell_moves(read_moves(change.moves))}",
        change=None,
        proposal=None,
        watch=None,
        handled=change.hash if change.hash == plan.spec.approved else status.handled,
        looked_at=format_time(now),
        basis="",
    )


def with_owner(
    plan: QuotaPlan,
    status: QuotaPlanStatus,
    moves: Sequence[QuotaMove],
    *,
    queue: str,
    owner: str,
) -> QuotaPlanStatus:
    """Return the status of a plan whose quotas somebody else writes."""
    return msgspec.structs.replace(
        status,
        state="NotOurs",
        message=f'nothing is written: field manager "{owner}" owns spec.resourceGroups of '
        f'ClusterQueue "{queue}" and would write its quotas back. Change them where it takes them '
        f"from: {_tell_moves(moves)}. `multiqueue quota plan {plan.metadata.name} -o patch` prints "
        "what a plan proposes for that",
    )


# ---------------------------------------------------------------- parts


def _is_returned(plan: QuotaPlan) -> bool:
    """Whether a change was taken back, and the spec is still the one that led to it."""
    status = plan.status
    return status.state == "Returned" and status.observed_generation == plan.metadata.generation


def _tell_return(status: QuotaPlanStatus) -> str:
    """Return why a change was taken back, without a problem that may be over."""
    return status.message.partition(PROBLEM)[0]


def _with_watch(view: PlanView, now: datetime) -> QuotaPlan:
    """Return the plan, which watches its last change no longer than it can take it back."""
    plan, status = view.plan, view.plan.status
    if status.watch is None:
        return plan
    until = parse_time(status.watch.until)
    if until is not None and now <= until and view.quotas == read_state(status.states[-1]):
        return plan
    status = msgspec.structs.replace(status, watch=None)
    return msgspec.structs.replace(plan, status=status)


def _find_way_back(view: PlanView, status: QuotaPlanStatus, number: int) -> Proposal | None:
    try:
        return build_way_back(view.plan.metadata.name, status, number, view.quotas)
    except ValueError:
        return None


def _find_due(view: PlanView, status: QuotaPlanStatus) -> datetime | None:
    """Return from when on a proposal is applied by itself, if it keeps its direction (P-110)."""
    if view.plan.spec.mode != AUTOMATIC or status.proposal is None:
        return None
    since = parse_time(status.proposal.since)
    return since + 2 * view.rules.every if since is not None else None


def _find_obstacle(view: PlanView, status: QuotaPlanStatus) -> str:
    if status.watch is not None:
        return f"the last change is watched until {status.watch.until}"
    return view.obstacle


def _is_due_by_itself(view: PlanView, status: QuotaPlanStatus) -> bool:
    due, looked = _find_due(view, status), parse_time(status.looked_at)
    if due is None or looked is None or looked < due:
        return False
    return not _find_obstacle(view, status)


def _directions(moves: Iterable[PlanMove]) -> set[tuple[QuotaKey, bool]]:
    return {(move.key, move.after > move.before) for move in read_moves(moves)}


def _look(view: PlanView, basis: str, now: datetime) -> QuotaPlanStatus:
    status = view.plan.status
    now = parse_time(format_time(now)) or now  # as it is read back
    got = propose(view.demand, _with_month(view, now), view.rules, now)
    looked = msgspec.structs.replace(status, looked_at=format_time(now), basis=basis)
    if not isinstance(got, Proposal):
        return msgspec.structs.replace(looked, state=got.state, message=got.message, proposal=None)
    old = status.proposal
    made_at = old.made_at if old is not None and old.hash == got.hash else format_time(now)
    moves = tuple(
        explain_move(move, view.demand.get(move.key), view.held.get(move.key, 0))
        for move in got.moves
    )
    keeps = old is not None and _directions(old.moves) == _directions(moves)
    since = old.since if old is not None and keeps else format_time(now)
    return msgspec.structs.replace(
        looked, proposal=PlanProposal(hash=got.hash, made_at=made_at, since=since, moves=moves)
    )


def _with_note(view: PlanView, status: QuotaPlanStatus) -> str:
    """Return the message, and what is wrong with the approval of a plan that proposes nothing."""
    message, approved = status.message.partition(NOTE)[0], view.plan.spec.approved
    if not approved or approved == status.handled:
        return message
    return f"{message}{NOTE}{approved}, and nothing is proposed now; nothing is applied"


def _tell_approval(view: PlanView, status: QuotaPlanStatus) -> str:
    name, proposal = view.plan.metadata.name, status.proposal
    assert proposal is not None
    approved = view.plan.spec.approved
    todo = f"to agree: multiqueue quota approve {name}"
    if approved and approved not in {status.handled, proposal.hash}:
        return (
            f"spec.approved is {approved}, which is not the proposal; nothing is applied. The "
            f"proposal is {proposal.hash}; look at it, and {todo}"
        )
    due, obstacle = _find_due(view, status), _find_obstacle(view, status)
    if due is not None:
        when = f"it is applied by itself from {format_time(due)} on, if it keeps its direction"
        todo = f"{when}{f', but not while {obstacle}' if obstacle else ''}; {todo}"
    return f"proposal {proposal.hash} changes {len(proposal.moves)} quotas; {todo}"


def _with_month(view: PlanView, now: datetime) -> dict[QuotaKey, QuotaNow]:
    """Return the quotas with those of 30 days ago, or of the earliest state that is kept."""
    states = view.plan.status.states
    earlier = [state for state in states if (parse_time(state.since) or now) <= now - MONTH]
    first = earlier[-1:] or list(states[:1])
    then = read_state(first[0]) if first else {}
    return {
        key: QuotaNow(nominal=amount, month_ago=then.get(key))
        for key, amount in view.quotas.items()
    }


def _basis(view: PlanView) -> str:
    """Return what stands for the spec and the quotas; a proposal is made anew if it changes."""
    content = repr((replace(view.rules, changes=0), sorted(view.quotas.items())))
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _tell_moves(moves: Sequence[QuotaMove]) -> str:
    return ", ".join(
        f"{move.key.cluster_queue} {format_amount(move.key.resource, move.before)} -> "
        f"{format_amount(move.key.resource, move.after)} {move.key.resource} ({move.key.flavor})"
        for move in moves
    )
