"""Whether enough workloads are gone or could be, and which may stay after all (E-93, E-94).

Shared by the classical and the fair search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiqueue.engine.cache.quota_node import FlavorResource
from multiqueue.engine.preemption.simulation import Simulation
from multiqueue.engine.preemption.target import PreemptionRequest, Target
from multiqueue.lib.amount import Amount


def simulate(request: PreemptionRequest) -> Simulation:
    """Begin a simulation that takes out what the request looks at; pods need everything to leave.

    Most holders use more flavor-resources than are asked for.
    """
    if request.is_placeable is not None:
        return Simulation(request.tree)
    slots = request.queue.node.slot_by_flavor_resource
    asked = request.usage.keys() | request.contested
    return Simulation(
        request.tree, frozenset(pair for pair, slot in slots.items() if slot in asked)
    )


def fits(request: PreemptionRequest, *, may_borrow: bool) -> bool:
    """Whether everything asked for is free at the usage of the moment."""
    node = request.queue.node
    for slot, amount in request.usage.items():
        if not may_borrow and node.nominal[slot] < node.usage[slot] + amount:
            return False
        if amount > max(0, node.available(slot)):
            return False
    return request.is_placeable is None or request.is_placeable()


def fits_in_use(request: PreemptionRequest) -> bool:
    """Whether everything asked for was free before it was counted as used; it may borrow.

    What is used is missing from what is available, in full: nothing is available that was not.
    """
    node = request.queue.node
    for slot, amount in request.usage.items():
        if amount and node.available(slot) < 0:
            return False
    return request.is_placeable is None or request.is_placeable()


def can_make_room(
    request: PreemptionRequest,
    needed: frozenset[FlavorResource],
    totals: Iterable[Mapping[FlavorResource, Amount]],
) -> bool:
    """Whether what is contested is free if all leave; else there is nothing to search for.

    Whoever leaves makes room of at most its own size.

    Args:
        request: what asks for room.
        needed: what is contested.
        totals: what the candidates use of that, queue by queue.
    """
    node = request.queue.node
    missing = {}
    for pair in needed:
        slot = node.slot_by_flavor_resource[pair]
        missing[pair] = request.usage[slot] - node.available(slot)
    for total in totals:
        for pair, amount in total.items():
            missing[pair] -= amount
    return all(amount <= 0 for amount in missing.values())


def fill_back(
    request: PreemptionRequest,
    simulation: Simulation,
    targets: list[Target],
    *,
    may_borrow: bool,
) -> list[Target]:
    """Drop the targets that need not leave, looking at the last but one first.

    The last one made room and stays. The last of the list takes the place of a dropped one: the
    order of the targets is that of the events and must be that of the reference.
    """
    for index in range(len(targets) - 2, -1, -1):
        entry = targets[index].entry
        simulation.put_back(entry)
        if fits(request, may_borrow=may_borrow):
            targets[index] = targets[-1]
            targets.pop()
        else:
            simulation.remove(entry)
    return targets
