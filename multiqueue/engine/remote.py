"""Workloads that run on other clusters: the question that the engine asks before reserving quota.

The engine knows no cluster. It asks one function, which only reads the last known state, so the
answers are part of the input: the same answers give the same plans. After the answers may have
changed, `Engine.fleet_changed` has to be called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from multiqueue.api.conditions import Reason
from multiqueue.engine.pending_reasons import NoClusterHolds
from multiqueue.engine.value import Value
from multiqueue.model.workload import PodSet, Workload

ChosenFlavors: TypeAlias = Mapping[str, Mapping[str, str]]
"""Flavors of the ClusterQueue by pod set name and resource; a missing key is not chosen yet."""


class Impossible(Value, frozen=True, kw_only=True, gc=False):
    """Why no cluster can ever hold a workload: typed, and as text with the numbers of each one."""

    reason: Reason
    words: str


class FleetOracle(Protocol):
    """Knows what the clusters behind an admission check can hold."""

    def __call__(self, workload: Workload, check: str, flavors: ChosenFlavors) -> Impossible | None:
        """Return why no cluster can ever hold the workload on hardware of these flavors.

        None if one can, or might: unknown facts are no reason to wait. Called for every head of a
        queue with such a check, more than once; must be quick and must not change anything.
        """
        ...


class FleetQuestions:
    """The oracle to ask; none at first. Mutable; owned by the engine."""

    __slots__ = ("oracle",)

    def __init__(self) -> None:
        self.oracle: FleetOracle | None = None

    def search(self, workload: Workload, check: str) -> RemoteSearch | None:
        """Return the search for one workload; None if it runs here, or without an oracle."""
        if not check or self.oracle is None:
            return None
        return RemoteSearch(oracle=self.oracle, workload=workload, check=check)


class RemoteSearch(Value, frozen=True, kw_only=True, gc=False):
    """The oracle's answers about one workload, for the queue's check."""

    oracle: FleetOracle
    workload: Workload
    check: str

    def why_never(self) -> Impossible | None:
        """Return why no cluster can hold the workload, whatever the flavors."""
        return self.oracle(self.workload, self.check, {})

    def refuse(
        self,
        flavor: str,
        pod_sets: Sequence[PodSet],
        resources: Mapping[str, object],
        settled: ChosenFlavors,
    ) -> NoClusterHolds | None:
        """Return why these pod sets cannot get a flavor, given the flavors chosen before.

        One cluster has to hold all of it; the clusters' capacity is not added up.
        """
        chosen = dict(settled)
        for pod_set in pod_sets:
            before = chosen.get(pod_set.name, {})
            chosen[pod_set.name] = {**before, **dict.fromkeys(resources, flavor)}
        impossible = self.oracle(self.workload, self.check, chosen)
        if impossible is None:
            return None
        return NoClusterHolds(flavor=flavor, reason=impossible.reason, words=impossible.words)
