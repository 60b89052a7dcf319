"""Random specs and workloads: every option of the engine, on a cluster small enough to contend."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from multiqueue.api import names
from multiqueue.api.v1beta2.workload import PodSetTopologyRequest
from multiqueue.engine.options import (
    AdmissionFairSharing,
    EngineOptions,
    FairSharing,
    FairStrategy,
    TopologyScheduling,
    TurnRules,
)
from multiqueue.lib.quantity import Quantity
from multiqueue.model.cluster_queue import (
    AdmissionCheckInfo,
    AdmissionMode,
    ClusterQueue,
    Cohort,
    FlavorFungibility,
    FungibilityPolicy,
    FungibilityPreference,
    LocalQueue,
    Preemption,
    PreemptionPolicy,
    QueueingStrategy,
    ResourceGroup,
    StopPolicy,
)
from multiqueue.model.resource_flavor import ResourceFlavor, Topology
from multiqueue.model.topology import Node
from multiqueue.model.workload import PodSet, Workload
from tests.builders.engine import (
    NAMESPACE,
    T0,
    check_rule,
    flavor_quotas,
    group,
    make_queue,
    make_workload,
    pod_set,
    quota,
    seconds,
)
from tests.topology_world import BLOCK, LEVELS, RACK, make_node

T = TypeVar("T")

QUEUES = ("a", "b", "c", "d")
LOCAL_QUEUES = tuple(f"{queue}{i}" for queue in QUEUES for i in (1, 2))
COHORTS = ("", "left", "right", "root")
NODES = ("b0-r0-h0", "b0-r0-h1", "b0-r1-h0", "b1-r0-h0")
ALWAYS, PROVISIONED = "always", "provisioned"
POLICIES = tuple(p for p in PreemptionPolicy if p is not PreemptionPolicy.ANY)
REQUESTS = (
    PodSetTopologyRequest(required=RACK),
    PodSetTopologyRequest(preferred=BLOCK),
    PodSetTopologyRequest(unconstrained=True),
)

Spec = ClusterQueue | Cohort | LocalQueue | ResourceFlavor | AdmissionCheckInfo | Topology | Node


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Draws objects.

    Shape: with ``best_effort`` nobody waits for another one that waits: no StrictFIFO, no
    blockAdmission, and the gate FlavorFungibility, without which a head does not park (E-52).
    ``placed`` gives the first flavor a topology.
    """

    random: random.Random
    placed: bool = False
    best_effort: bool = False

    def one(self, *choices: T) -> T:
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def upto(self, most: int) -> int:
        return self.random.randrange(most + 1)

    def maybe(self, value: int, probability: float = 0.3) -> int | None:
        return value if self.chance(probability) else None

    # ---------------------------------------------------------------- options

    def options(self) -> EngineOptions:
        fair, by_usage = self.chance(0.4), self.chance(0.4)
        likely: dict[str, Any] = {
            name: self.chance(0.85)
            for name in (
                "keep_scan_progress",
                "park_equals",
                "partial_admission",
                "recompute_overlap",
            )
        }
        return EngineOptions(
            **likely,
            fungibility=self.best_effort or self.chance(0.85),
            block_admission=not self.best_effort and self.chance(0.15),
            decision_budget=self.one(400, 400, 2),
            ignore_undeclared=self.chance(0.2),
            fair_sharing=self.fair_sharing() if fair else None,
            admission_fair_sharing=AdmissionFairSharing(
                half_life=seconds(self.one(0, 20)), sampling_interval=seconds(5)
            )
            if by_usage
            else None,
            topology=TopologyScheduling(
                balanced_placement=self.chance(0.3),
                mixed_profile=self.chance(0.5),
                recompute=self.chance(0.7),
                fail_fast=self.chance(0.5),
            ),
            turns=TurnRules(by_priority=self.chance(0.8), preemptors_first=self.chance(0.3)),
        )

    def fair_sharing(self) -> FairSharing:
        both = tuple(FairStrategy)
        return FairSharing(
            strategies=self.one(both, both[:1], both[1:]),
            preempt_within_nominal=self.chance(0.7),
            prioritize_non_borrowing=self.chance(0.7),
        )

    # ---------------------------------------------------------------- specs

    def flavors(self) -> list[ResourceFlavor]:
        grown = ResourceFlavor(name="x", node_labels={"pool": "a"}, topology_name="dc")
        return [grown if self.placed else ResourceFlavor(name="x"), ResourceFlavor(name="y")]

    def nodes(self) -> list[Node]:
        return [self.node(name) for name in NODES]

    def node(self, name: str) -> Node:
        node = make_node(name, self.one(2, 4, 6), pods=self.one(2, 20))
        return replace(node, allocatable={**node.allocatable, "nvidia.com/gpu": self.one(0, 2, 4)})

    def topology(self) -> Topology:
        return Topology(name="dc", levels=LEVELS)

    def checks(self) -> list[AdmissionCheckInfo]:
        controller = names.PROVISIONING_REQUEST_CONTROLLER
        return [
            AdmissionCheckInfo(name=ALWAYS, active=not self.chance(0.1)),
            AdmissionCheckInfo(name=PROVISIONED, controller_name=controller),
        ]

    def weight(self) -> Quantity:
        return Quantity.of(self.one(0, 1, 1, 1, 3))

    def groups(self, *, limited: bool = True) -> ResourceGroup:
        flavors = []
        for name in self.one(("x", "y"), ("x", "y"), ("y", "x"), ("x",)):
            cpu = quota(
                "cpu",
                self.upto(7),
                borrow=self.maybe(self.upto(4)) if limited else None,
                lend=self.maybe(self.upto(4)) if limited else None,
            )
            flavors.append(flavor_quotas(name, cpu=cpu, gpu=self.one(0, 2, 4, 6)))
        return group(*flavors)

    def cluster_queue(self, name: str) -> ClusterQueue:
        strategies = (QueueingStrategy.BEST_EFFORT_FIFO, QueueingStrategy.STRICT_FIFO)
        return make_queue(
            name,
            self.groups(),
            cohort=self.one(*COHORTS, *COHORTS[1:]),
            weight=self.weight(),
            strategy=self.one(*strategies[: 1 if self.best_effort else 2]),
            fungibility=FlavorFungibility(
                when_can_borrow=self.one(*FungibilityPolicy),
                when_can_preempt=self.one(*FungibilityPolicy),
                preference=self.one(*FungibilityPreference),
            ),
            preemption=Preemption(
                within_cluster_queue=self.one(*POLICIES, PreemptionPolicy.LOWER_PRIORITY),
                reclaim_within_cohort=self.one(*PreemptionPolicy, PreemptionPolicy.ANY),
                borrow_within_cohort=self.one(
                    PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY
                ),
                borrow_max_priority_threshold=self.maybe(self.upto(2)),
            ),
            checks=self.one((), (), (), (check_rule(ALWAYS),), (check_rule(PROVISIONED, "x"),)),
            admission_mode=self.one(*AdmissionMode),
            stop_policy=self.one(*[StopPolicy.NONE] * 9, StopPolicy.HOLD),
        )

    def cohort(self, name: str, parent: str) -> Cohort:
        groups = (self.groups(limited=bool(parent)),) if self.chance(0.5) else ()
        return Cohort(name=name, parent=parent, resource_groups=groups, weight=self.weight())

    def local_queue(self, name: str, stop_policy: StopPolicy = StopPolicy.NONE) -> LocalQueue:
        return LocalQueue(
            key=f"{NAMESPACE}/{name}",
            cluster_queue=name[0],
            weight=self.weight(),
            stop_policy=stop_policy,
        )

    def specs(self) -> list[Spec]:
        """Return everything there is when a history begins."""
        return [
            *self.flavors(),
            self.topology(),
            *self.nodes(),
            *self.checks(),
            self.cohort("left", "root"),
            self.cohort("right", "root"),
            *map(self.cluster_queue, QUEUES),
            *map(self.local_queue, LOCAL_QUEUES),
        ]

    # ---------------------------------------------------------------- workloads

    def workload(self, name: str, *, at: float) -> Workload:
        return make_workload(
            name,
            queue=self.one(*LOCAL_QUEUES),
            at=T0 + seconds(at),
            priority=self.upto(4),
            pod_sets=[self.pod_set(f"ps{i}") for i in range(self.one(1, 1, 2))],
        )

    def pod_set(self, name: str) -> PodSet:
        return pod_set(
            name,
            count=self.one(1, 1, 2, 3),
            min_count=self.maybe(1),
            topology_request=self.one(None, None, *REQUESTS) if self.placed else None,
            cpu=self.upto(3),
            gpu=self.one(0, 0, 1, 2),
        )
