"""Changes of quotas: the order of writes, who else owns them, and the way back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from multiqueue.api.v1alpha1 import (
    PlanChange,
    PlanMove,
    PlannedQuota,
    PlanState,
    ProposedMove,
    QuotaPlanStatus,
)
from multiqueue.controllers.quota_plan.histogram import DemandHistogram
from multiqueue.controllers.quota_plan.propose import (
    MeasuredDemand,
    Proposal,
    QuotaKey,
    QuotaMove,
    hash_moves,
)
from multiqueue.lib.amount import Amount
from multiqueue.model.resources import format_amount, parse_quota

UNMET_HOURS = 14 * 24
DEPLOYERS = ("argocd", "flux", "helm", "kustomize-controller", "pulumi", "terraform")
"""How the field managers of programs that write objects from a repository begin."""

Json = dict[str, Any]


# ---------------------------------------------------------------- moves on the wire


def write_move(move: QuotaMove) -> PlanMove:
    """Return a move as it stands in a status."""
    key = move.key
    return PlanMove(
        cluster_queue=key.cluster_queue,
        flavor=key.flavor,
        resource=key.resource,
        before=format_amount(key.resource, move.before),
        after=format_amount(key.resource, move.after),
    )


def build_change(hash_: str, moves: Iterable[QuotaMove], by: str) -> PlanChange:
    """Return a change as it stands in a status."""
    return PlanChange(hash=hash_, by=by, moves=tuple(write_move(move) for move in moves))


def read_moves(moves: Iterable[PlanMove]) -> tuple[QuotaMove, ...]:
    """Return the moves of a status."""
    return tuple(
        QuotaMove(
            key=QuotaKey(move.cluster_queue, move.flavor, move.resource),
            before=parse_quota(move.resource, move.before),
            after=parse_quota(move.resource, move.after),
        )
        for move in moves
    )


def explain_move(move: QuotaMove, demand: MeasuredDemand | None, held: Amount) -> ProposedMove:
    """Return a move with what speaks for it.

    Args:
        move: The move.
        demand: The demand for this quota.
        held: What the queue's Workloads hold now.
    """
    plain, resource = write_move(move), move.key.resource
    histogram = demand.histogram if demand is not None else DemandHistogram()

    def at(percent: int) -> str:
        return format_amount(resource, histogram.percentile(percent))

    def unmet(quota: Amount) -> str:
        return format_amount(resource, round(histogram.excess_over(quota) * UNMET_HOURS))

    return ProposedMove(
        cluster_queue=plain.cluster_queue,
        flavor=plain.flavor,
        resource=plain.resource,
        before=plain.before,
        after=plain.after,
        p50=at(50),
        p80=at(80),
        p95=at(95),
        unmet_before=unmet(move.before),
        unmet_after=unmet(move.after),
        borrows=format_amount(resource, max(0, held - move.after)),
    )


# ---------------------------------------------------------------- writing


def find_next_write(
    moves: Sequence[QuotaMove], quotas: Mapping[QuotaKey, Amount]
) -> QuotaMove | None:
    """Return the move to write next: those that shrink come first (P-103); None: all are done."""
    for shrinks in (True, False):
        for move in moves:
            if (move.after < move.before) == shrinks and quotas.get(move.key) != move.after:
                return move
    return None


def find_stranger(
    moves: Sequence[QuotaMove], quotas: Mapping[QuotaKey, Amount]
) -> QuotaMove | None:
    """Return a move whose quota is neither what it was nor what it shall be."""
    return next(
        (move for move in moves if quotas.get(move.key) not in {move.before, move.after}), None
    )


def build_patch(queue: Mapping[str, Any], move: QuotaMove) -> list[Json]:
    """Return the JSON patch that changes one nominal quota, if it is still what it was.

    Raises:
        LookupError: the ClusterQueue has no such quota.
    """
    key = move.key
    for g, group in enumerate(queue["spec"].get("resourceGroups") or ()):
        for f, flavor in enumerate(group.get("flavors") or ()):
            for r, quota in enumerate(flavor.get("resources") or ()):
                if (flavor["name"], quota["name"]) == (key.flavor, key.resource):
                    place = f"/spec/resourceGroups/{g}/flavors/{f}/resources/{r}"
                    value = format_amount(key.resource, move.after)
                    return [
                        {"op": "test", "path": f"{place}/name", "value": quota["name"]},
                        {
                            "op": "test",
                            "path": f"{place}/nominalQuota",
                            "value": quota["nominalQuota"],
                        },
                        {"op": "replace", "path": f"{place}/nominalQuota", "value": value},
                    ]
    raise LookupError(f"{key.cluster_queue} has no quota of {key.resource} in flavor {key.flavor}")


def find_owner(queue: Mapping[str, Any]) -> str:
    """Return the field manager that would write the quotas back; empty if there is none (P-108).

    That is whoever applies them on the server's side, and programs that are known to write from a
    repository. A person who edited the object does not do it again.

    Args:
        queue: The ClusterQueue with its managedFields.
    """
    for entry in queue.get("metadata", {}).get("managedFields") or ():
        manager, fields = str(entry.get("manager", "")), entry.get("fieldsV1") or {}
        if entry.get("subresource"):
            continue
        if "f:resourceGroups" not in (fields.get("f:spec") or {}):
            continue
        if entry.get("operation") == "Apply" or manager.lower().startswith(DEPLOYERS):
            return manager
    return ""


# ---------------------------------------------------------------- states


def build_state(
    number: int, quotas: Mapping[QuotaKey, Amount], *, since: str, by: str
) -> PlanState:
    """Return the state that some quotas are."""
    return PlanState(
        number=number,
        since=since,
        by=by,
        quotas=tuple(
            PlannedQuota(
                cluster_queue=key.cluster_queue,
                flavor=key.flavor,
                resource=key.resource,
                nominal=format_amount(key.resource, amount),
            )
            for key, amount in sorted(quotas.items())
        ),
    )


def read_state(state: PlanState) -> dict[QuotaKey, Amount]:
    """Return the quotas of a state."""
    return {
        QuotaKey(each.cluster_queue, each.flavor, each.resource): parse_quota(
            each.resource, each.nominal
        )
        for each in state.quotas
    }


def build_way_back(
    plan: str, status: QuotaPlanStatus, number: int, quotas: Mapping[QuotaKey, Amount]
) -> Proposal:
    """Return the change that leads back to an earlier state.

    Args:
        plan: The plan's name.
        status: Its status.
        number: The number of the state.
        quotas: The quotas now.

    Raises:
        ValueError: there is no way back; the message says why and what to do.
    """
    states = {state.number: state for state in status.states}
    if number not in states:
        known = ", ".join(map(str, states)) or "none"
        raise ValueError(f"state {number} is not kept; there are: {known}")
    wanted = read_state(states[number])
    if wanted.keys() != quotas.keys():
        different = ", ".join(sorted({key.cluster_queue for key in wanted.keys() ^ quotas.keys()}))
        raise ValueError(
            f"the plan had other quotas in state {number} (ClusterQueues: {different}); set the "
            "quotas by hand"
        )
    for place in sorted({key[1:] for key in wanted}):
        then = sum(amount for key, amount in wanted.items() if key[1:] == place)
        now = sum(amount for key, amount in quotas.items() if key[1:] == place)
        if then != now:
            flavor, resource = place
            raise ValueError(
                f"in state {number} all queues together had {format_amount(resource, then)} "
                f"{resource} in flavor {flavor}, now they have {format_amount(resource, now)}; "
                "set the quotas by hand"
            )
    moves = tuple(
        QuotaMove(key=key, before=quotas[key], after=amount)
        for key, amount in sorted(wanted.items())
        if quotas[key] != amount
    )
    if not moves:
        raise ValueError(f"the quotas are those of state {number} already")
    return Proposal(moves=moves, hash=hash_moves(plan, status.changes, moves))
