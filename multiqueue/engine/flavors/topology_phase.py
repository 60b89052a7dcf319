"""Find topology domains for an assignment of flavors (E-57, E-134 to E-136).

Called by `nominate` after the flavors are chosen. What finds no place while others run asks for a
preemption; what would find none even without them, fits nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from multiqueue.engine.eligibility import wants_topology
from multiqueue.engine.flavors.assignment import Assignment, FlavorMode, Mode, PodSetResult
from multiqueue.engine.pending_reasons import FlavorAttempt, PodSetExplanation, TopologyPlacement
from multiqueue.engine.tas.charges import topology_flavors
from multiqueue.engine.tas.failure import PlacementFailure
from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.tas.placement import PodsToPlace, place_group, requests_of
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.engine.value import Value
from multiqueue.model.placement import Placement, merge
from multiqueue.model.resource_flavor import ResourceFlavor
from multiqueue.model.topology import TopologyAssignment
from multiqueue.model.workload import PodSet

Group: TypeAlias = tuple[str, Sequence[PodSetResult]]
"""A flavor, and pod sets that are placed together in it."""


class Unplaced(NamedTuple):
    """The pod sets that could not be placed, in which flavor, and why."""

    pod_sets: tuple[str, ...]
    flavor: str
    failure: PlacementFailure


class TopologyPlaces(NamedTuple):
    """The domains by name of the pod set, and what they mean for the nodes."""

    topologies: Mapping[str, TopologyAssignment] = {}
    placed: tuple[PlacedPods, ...] = ()


class TopologyPhase(Value, frozen=True, kw_only=True, gc=False):
    """What stays the same during the search for nodes.

    Shape: ``implied`` is true in a queue with nothing but topologies, ``delayed`` has the flavors
    of which the topology is decided after the admission. ``updates`` by name of the pod set are
    what admission checks add to the demands of pods (E-131).
    """

    forest: Forest
    flavors: Mapping[str, ResourceFlavor]
    implied: bool = False
    delayed: frozenset[str] = frozenset()
    updates: Mapping[str, Placement] = {}

    def apply(self, assignment: Assignment) -> Assignment:
        """Place the pods, or downgrade the assignment (E-57)."""
        if assignment.mode is Mode.NO_FIT:
            return assignment
        assignment = self._delay(assignment)
        if assignment.mode is Mode.FIT:
            found = self.find(assignment)
            if isinstance(found, TopologyPlaces):
                return replace(assignment, topologies=found.topologies, placed=found.placed)
            assignment = _refuse(assignment, found, FlavorMode.PREEMPT)
        names = {pod_set.pod_set.name for pod_set in self._asking(assignment)}
        if not names:
            return assignment
        found = self.find(assignment, empty=True)
        if isinstance(found, Unplaced):
            return _refuse(assignment, found, None)
        return _downgrade(assignment, names)

    def touch_up(self, assignment: Assignment, *, empty: bool) -> Assignment:
        """Reserve domains, if there are any, for a workload that waits for victims (E-44)."""
        found = self.find(assignment, empty=empty)
        if isinstance(found, Unplaced):
            return assignment
        return replace(assignment, topologies=found.topologies, placed=found.placed)

    def is_placeable(self, assignment: Assignment) -> bool:
        """Whether all pods can be placed at the current usage."""
        return isinstance(self.find(assignment), TopologyPlaces)

    def asks(self, assignment: Assignment) -> bool:
        """Whether any pod set is placed with the admission."""
        return bool(self._asking(assignment))

    # ---------------------------------------------------------------- search

    def find(self, assignment: Assignment, *, empty: bool = False) -> TopologyPlaces | Unplaced:
        """Place all pod sets, flavor by flavor; each sees the places of those before it.

        Deviates: pod sets that find no place beside those before them are placed first, then.
        Upstream has the workload wait, though its pods fit, until others take such nodes that
        those before choose different ones.

        Args:
            assignment: the flavors.
            empty: as if no pod that a topology placed ran.
        """
        asking = self._asking(assignment)
        by_flavor: dict[str, list[PodSetResult]] = {}
        for result in asking:
            names = self._flavors_of(result, asking)
            if len(names) != 1:
                return _ambiguous(result.pod_set, names)
            by_flavor.setdefault(names[0], []).append(result)
        for flavor in by_flavor:
            self.forest.tree(flavor)  # all are grown before any room is taken
        groups = [
            (name, group) for name in sorted(by_flavor) for group in _grouped(by_flavor[name])
        ]
        found = refusal = self._place_all(groups, empty=empty)
        for _ in groups[1:]:
            if isinstance(found, TopologyPlaces):
                break
            groups.sort(key=partial(_is_placed, found.pod_sets))
            found = self._place_all(groups, empty=empty)
        if isinstance(found, TopologyPlaces):
            return found
        self.forest.lacked_room = self.forest.lacked_room or not empty
        return refusal

    def _place_all(self, groups: Sequence[Group], *, empty: bool) -> TopologyPlaces | Unplaced:
        topologies: dict[str, TopologyAssignment] = {}
        placed: list[PlacedPods] = []
        with ExitStack() as assumed:
            for flavor, group in groups:
                found = self._place(flavor, group, empty=empty)
                if isinstance(found, Unplaced):
                    return found
                topologies |= found.topologies
                placed += found.placed
                assumed.enter_context(self.forest.assuming(found.placed))
        return TopologyPlaces(topologies, tuple(placed))

    def _place(
        self, flavor: str, group: Sequence[PodSetResult], *, empty: bool
    ) -> TopologyPlaces | Unplaced:
        names = _names(group)
        grown = self.forest.tree(flavor)
        if grown is None:
            detail = f'Flavor "{flavor}" information missing in TAS cache'
            return Unplaced(names, flavor, PlacementFailure(topology="", detail=detail))
        pods = [self.pods(result) for result in group]
        found = place_group(grown, pods, empty=empty)
        if isinstance(found, PlacementFailure):
            return Unplaced(names, flavor, found)
        placed = tuple(PlacedPods(flavor, each.requests, found[each.name]) for each in pods)
        return TopologyPlaces(found, placed)

    def pods(self, result: PodSetResult) -> PodsToPlace:
        """Return the pods of a pod set with all that they demand of nodes."""
        pod_set = result.pod_set
        return PodsToPlace(
            name=pod_set.name,
            count=result.pods,
            requests=requests_of(pod_set.node_requests),
            placement=merge(pod_set.placement, self.updates.get(pod_set.name)),
            topology_request=pod_set.topology_request,
            implied=self.implied and not wants_topology(pod_set),
        )

    # ---------------------------------------------------------------- which pod sets

    def _asking(self, assignment: Assignment) -> list[PodSetResult]:
        """Return the pod sets that are placed now: not those without pods, or delayed (E-135)."""
        return [
            result
            for result in assignment.pod_sets
            if result.pods > 0
            and result.flavors is not None
            and result.pod_set.name not in assignment.delayed
            and (self.implied or wants_topology(result.pod_set))
        ]

    def _flavors_of(self, result: PodSetResult, asking: Iterable[PodSetResult]) -> list[str]:
        """Return the flavors with a topology; without requests those of the group (E-55)."""
        own = self._topology_flavors(result)
        group = _group_name(result.pod_set)
        if own or result.flavors or group is None:
            return own
        return sorted(
            {
                flavor
                for other in asking
                if _group_name(other.pod_set) == group
                for flavor in self._topology_flavors(other)
            }
        )

    def _topology_flavors(self, result: PodSetResult) -> list[str]:
        chosen = (choice.flavor for choice in (result.flavors or {}).values())
        return topology_flavors(chosen, self.flavors)

    def _delay(self, assignment: Assignment) -> Assignment:
        """Put off pod sets whose nodes do not exist yet, or are in another cluster (E-134)."""
        if not self.delayed:
            return assignment
        later = {
            result.pod_set.name
            for result in self._asking(assignment)
            if any(c.flavor in self.delayed for c in (result.flavors or {}).values())
        }
        return replace(assignment, delayed=frozenset(later))


def _group_name(pod_set: PodSet) -> str | None:
    return pod_set.topology_request.pod_set_group_name if pod_set.topology_request else None


def _names(group: Sequence[PodSetResult]) -> tuple[str, ...]:
    return tuple(result.pod_set.name for result in group)


def _is_placed(unplaced: tuple[str, ...], group: Group) -> bool:
    return _names(group[1]) != unplaced


def _grouped(results: Sequence[PodSetResult]) -> list[list[PodSetResult]]:
    """Bring pod sets of a group together, in order of first appearance."""
    groups: dict[object, list[PodSetResult]] = {}
    for index, result in enumerate(results):
        groups.setdefault(_group_name(result.pod_set) or index, []).append(result)
    return list(groups.values())


def _ambiguous(pod_set: PodSet, flavors: Sequence[str]) -> Unplaced:
    what = f"more than one flavor: {', '.join(flavors)}" if flavors else "no flavor with a topology"
    failure = PlacementFailure(
        topology="", detail=f"workload requires Topology, but its pods are assigned {what}"
    )
    return Unplaced((pod_set.name,), flavors[0] if flavors else "", failure)


# -------------------------------------------------------------------- what a refusal means


def _refuse(assignment: Assignment, unplaced: Unplaced, mode: FlavorMode | None) -> Assignment:
    """Downgrade the pod sets that found no place; without a mode they get no flavor."""
    results = tuple(
        _refuse_pod_set(result, unplaced, mode)
        if result.pod_set.name in unplaced.pod_sets
        else result
        for result in assignment.pod_sets
    )
    return replace(assignment, pod_sets=results, mode=Mode.NO_FIT if mode is None else Mode.PREEMPT)


def _refuse_pod_set(
    result: PodSetResult, unplaced: Unplaced, mode: FlavorMode | None
) -> PodSetResult:
    refusal = TopologyPlacement(unplaced.flavor, unplaced.failure)
    known = result.explanation
    attempt = FlavorAttempt(unplaced.flavor, (refusal,))
    groups: tuple[tuple[FlavorAttempt, ...], ...] = ((attempt,),)
    if known is not None and known.groups:
        had_it = any(refusal in each.refusals for group in known.groups for each in group)
        # It has quota in this flavor, or would have it: the place is what it waits for (E-58).
        last = known.groups[-1] if had_it else (*known.groups[-1], attempt)
        groups = (*known.groups[:-1], last)
    explanation = PodSetExplanation(result.pod_set.name, result.pods, groups)
    if mode is None:
        return result._replace(explanation=explanation)
    return _with_mode(result, mode)._replace(explanation=explanation)


def _downgrade(assignment: Assignment, names: set[str]) -> Assignment:
    """Ask for a preemption in all flavors of the pod sets that need a place."""
    results = tuple(
        _with_mode(result, FlavorMode.PREEMPT) if result.pod_set.name in names else result
        for result in assignment.pod_sets
    )
    return replace(assignment, pod_sets=results, mode=Mode.PREEMPT)


def _with_mode(result: PodSetResult, mode: FlavorMode) -> PodSetResult:
    flavors = {
        name: choice._replace(mode=min(choice.mode, mode))
        for name, choice in (result.flavors or {}).items()
    }
    return result._replace(flavors=flavors)
