"""The result of looking for flavors: modes, choices, usage, and where to resume (E-42 to E-56)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from multiqueue.engine.pending_reasons import PodSetExplanation
from multiqueue.engine.queues.resume import Tried
from multiqueue.engine.tas.usage import PlacedPods
from multiqueue.engine.value import Value
from multiqueue.lib.amount import Amount
from multiqueue.model.cluster_queue import FungibilityPreference
from multiqueue.model.topology import PENDING, TopologyAssignment
from multiqueue.model.workload import Admission, PodSet, PodSetAssignment


class FlavorMode(IntEnum):
    """How suitable a flavor is, worst first (E-48)."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Mode(IntEnum):
    """How well a workload would fit, worst first (E-42).

    A deferred fit needs the room of workloads that leave for another one (E-70).
    """

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3


PreferenceKey: TypeAlias = tuple[int, int, int]


def preference_key(
    mode: FlavorMode, borrowing: int, preference: FungibilityPreference | None
) -> PreferenceKey:
    """Return a key that is greater for the better of two outcomes (E-50); the mode alone (E-52)."""
    if preference is None:
        return (2, mode, 0)
    if mode <= FlavorMode.NO_CANDIDATES:
        quality = int(mode)
        if mode is FlavorMode.NO_FIT:
            return (quality, 0, 0)
    else:
        quality = 2
    if preference is FungibilityPreference.BORROWING_OVER_PREEMPTION:
        return (quality, mode, -borrowing)
    return (quality, -borrowing, mode)


class FlavorChoice(NamedTuple):
    """The flavor of one resource of a pod set. A tuple, because the hot path makes many.

    Shape: ``tried_index`` is the position at which the search stopped, -1 after the last (E-53);
    ``slot`` belongs to the ClusterQueue's quota node.
    """

    flavor: str
    mode: FlavorMode
    borrowing: int
    tried_index: int
    slot: int


class PodSetResult(NamedTuple):
    """What a pod set would get. A tuple, because the hot path makes many.

    Shape: ``requests`` are totals of all ``pods``; ``flavors`` is None if none was found.
    ``explanation`` is None if everything fits.
    """

    pod_set: PodSet
    pods: int
    requests: Mapping[str, Amount]
    flavors: Mapping[str, FlavorChoice] | None
    explanation: PodSetExplanation | None = None

    @property
    def mode(self) -> Mode:
        """How well this pod set would fit."""
        if self.flavors is None:
            return Mode.NO_FIT
        worst = min((choice.mode for choice in self.flavors.values()), default=FlavorMode.FIT)
        return Mode.FIT if worst is FlavorMode.FIT else Mode.PREEMPT


class Assignment(Value, frozen=True, kw_only=True, gc=False):
    """The assignment of a whole workload.

    Shape: ``usage`` is by slot of the ClusterQueue's node. ``topologies`` are the domains by name
    of the pod set, and ``placed`` what they mean for the nodes; in ``delayed`` are the pod sets
    that get theirs after the admission (E-134).
    """

    pod_sets: tuple[PodSetResult, ...] = ()
    mode: Mode = Mode.NO_FIT
    borrowing: int = 0
    usage: Mapping[int, Amount] = {}
    topologies: Mapping[str, TopologyAssignment] = {}
    placed: tuple[PlacedPods, ...] = ()
    delayed: frozenset[str] = frozenset()

    def explanations(self) -> tuple[PodSetExplanation, ...]:
        """Return why pod sets do not fit."""
        return tuple(ps.explanation for ps in self.pod_sets if ps.explanation is not None)

    def contested(self) -> frozenset[int]:
        """Return the slots in which other workloads would have to leave (E-86)."""
        return frozenset(
            choice.slot
            for ps in self.pod_sets
            for choice in (ps.flavors or {}).values()
            if choice.mode is not FlavorMode.FIT and choice.slot in self.usage
        )

    def flavors(self) -> Mapping[str, frozenset[str]]:
        """Return the flavors of each pod set, by its name."""
        return {
            ps.pod_set.name: frozenset(choice.flavor for choice in (ps.flavors or {}).values())
            for ps in self.pod_sets
        }

    def tried(self) -> Tried | None:
        """Return where each search stopped; None if each tried its last flavor (E-24, E-53).

        A pod set without flavors begins anew.
        """
        for ps in self.pod_sets:
            for choice in (ps.flavors or {}).values():
                if choice.tried_index != -1:
                    return tuple(
                        {name: c.tried_index for name, c in (ps.flavors or {}).items()}
                        for ps in self.pod_sets
                    )
        return None

    def admission(self, cluster_queue: str) -> Admission:
        """Return the admission that this assignment stands for."""
        return Admission(
            cluster_queue=cluster_queue,
            pod_sets=tuple(
                PodSetAssignment(
                    name=ps.pod_set.name,
                    flavors={name: choice.flavor for name, choice in (ps.flavors or {}).items()},
                    usage=ps.requests,
                    count=ps.pods,
                    topology=self.topologies.get(ps.pod_set.name),
                    delayed_topology=PENDING if ps.pod_set.name in self.delayed else "",
                )
                for ps in self.pod_sets
            ),
        )
