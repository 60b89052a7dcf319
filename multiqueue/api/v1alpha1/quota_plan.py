"""QuotaPlan: moves nominal quota between ClusterQueues, as measured demand suggests."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from multiqueue.api.markers import DURATION_PATTERN, REFERENCE, described
from multiqueue.api.v1beta2.meta import ObjectMeta, QuantityValue, Struct
from multiqueue.lib.words import words

PLAN_MODES = ("Propose", "Automatic", "Paused")
PLAN_STATES = words(
    "Learning Unchanged Proposed Applying Applied Returned Dropped NotOurs Impossible Invalid "
    "Paused"
)
MAX_QUOTAS = 200
"""Quotas of one plan: with 1 KB of demand each, a status stays below 300 KB."""
MAX_STATES = 10

_DURATION: dict[str, Any] = {"maxLength": 32, "pattern": DURATION_PATTERN}
_NAME: dict[str, Any] = {"required": True, "maxLength": 317}
_TIME: dict[str, Any] = {"maxLength": 64}


class PlannedResource(Struct, frozen=True, kw_only=True):
    """A resource of a flavor whose quotas are moved."""

    flavor: Annotated[str, described("The ResourceFlavor.", required=True, **REFERENCE)] = ""
    resource: Annotated[
        str, described("The resource, such as nvidia.com/gpu.", **_NAME, minLength=1)
    ] = ""
    step: Annotated[QuantityValue, described("Quotas change by multiples of this.", default=1)] = 1


class PlanHistory(Struct, frozen=True, kw_only=True):
    """How demand is measured."""

    half_life: Annotated[
        str,
        described("After this time a sample counts half.", default="168h", **_DURATION),
    ] = "168h"
    least: Annotated[
        str,
        described(
            "Nothing is proposed before demand is measured for this long.",
            default="168h",
            **_DURATION,
        ),
    ] = "168h"
    percentile: Annotated[
        int,
        described(
            "The part of the time for which a queue's own quota should be enough, in percent.",
            default=80,
            minimum=1,
            maximum=99,
        ),
    ] = 80
    credit: Annotated[
        str,
        described(
            "The most of its wait for which a Workload that ran later counts as demand; at most "
            "48h.",
            default="12h",
            **_DURATION,
        ),
    ] = "12h"


class PlanBounds(Struct, frozen=True, kw_only=True):
    """Limits of the nominal quota of one ClusterQueue."""

    cluster_queue: Annotated[str, described("The ClusterQueue.", required=True, **REFERENCE)] = ""
    flavor: Annotated[
        str, described("The ResourceFlavor; empty: each of the plan.", maxLength=253)
    ] = ""
    resource: Annotated[str, described("The resource; empty: each of the plan.", maxLength=317)] = (
        ""
    )
    min: Annotated[
        QuantityValue | None, described("The plan does not go below this; absent: 0.")
    ] = None
    max: Annotated[
        QuantityValue | None, described("The plan does not go above this; absent: no limit.")
    ] = None


class PlanMaxChange(Struct, frozen=True, kw_only=True):
    """How far quotas move; one step is always allowed."""

    percent: Annotated[
        int,
        described(
            "The most that one change moves of a nominal quota, in percent.",
            default=10,
            minimum=1,
            maximum=100,
        ),
    ] = 10
    month_percent: Annotated[
        int,
        described(
            "The same for all changes within 30 days together.",
            default=30,
            minimum=1,
            maximum=1000,
        ),
    ] = 30


class PlanGuard(Struct, frozen=True, kw_only=True):
    """When a change is taken back, because it made a queue that shrank worse."""

    watch: Annotated[
        str,
        described(
            "For this time after a change the queues that shrank are watched; 0s: not at all, at "
            "most 168h.",
            default="24h",
            **_DURATION,
        ),
    ] = "24h"
    wait_percent: Annotated[
        int,
        described(
            "The wait that nine in ten of its Workloads keep may be longer by so much.",
            default=50,
            minimum=1,
            maximum=1000,
        ),
    ] = 50
    wait_at_least: Annotated[
        str,
        described("A wait that is longer by less counts as equal.", default="10m", **_DURATION),
    ] = "10m"


class QuotaPlanSpec(Struct, frozen=True, kw_only=True):
    """Which quotas are moved, how far, and what is agreed to."""

    cohort: Annotated[
        str,
        described(
            "The Cohort: quota moves between the ClusterQueues in it and below.",
            required=True,
            **REFERENCE,
        ),
    ] = ""
    resources: Annotated[
        tuple[PlannedResource, ...],
        described(
            "What is moved.",
            required=True,
            minItems=1,
            maxItems=8,
            list_map_keys=("flavor", "resource"),
        ),
    ] = ()
    mode: Annotated[
        str,
        described(
            "Propose: changes are proposed and, once approved, applied. Automatic: what was "
            "proposed in the same direction for two periods is applied by itself, too. Paused: "
            "demand is measured, and nothing else is done.",
            default="Propose",
            enum=list(PLAN_MODES),
        ),
    ] = "Propose"
    every: Annotated[
        str, described("A new proposal is made after this time.", default="24h", **_DURATION)
    ] = "24h"
    history: Annotated[PlanHistory, described("How demand is measured.", default={})] = (
        PlanHistory()
    )
    bounds: Annotated[
        tuple[PlanBounds, ...],
        described("Limits of single ClusterQueues.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()
    max_change: Annotated[PlanMaxChange, described("How far quotas move.", default={})] = (
        PlanMaxChange()
    )
    deadband_percent: Annotated[
        int,
        described(
            "Nothing is proposed if no quota would change by this part of it.",
            default=5,
            minimum=0,
            maximum=100,
        ),
    ] = 5
    guard: Annotated[PlanGuard, described("When a change is taken back by itself.", default={})] = (
        PlanGuard()
    )
    approved: Annotated[
        str,
        described(
            "The hash of the change that somebody agrees to: of status.proposal, or of the way "
            "back to an earlier state. `multiqueue quota approve` and `rollback` write it.",
            maxLength=64,
        ),
    ] = ""


class PlanDemand(Struct, frozen=True, kw_only=True):
    """The measured demand for one quota."""

    cluster_queue: Annotated[str, described("The ClusterQueue.", **_NAME)] = ""
    flavor: Annotated[str, described("The ResourceFlavor.", **_NAME)] = ""
    resource: Annotated[str, described("The resource.", **_NAME)] = ""
    since: Annotated[str, described("The time of the first sample.", **_TIME)] = ""
    histogram: Annotated[
        str,
        described(
            "AMOUNT:WEIGHT of each bucket. Amounts are in milli for cpu and in base units "
            "otherwise; a new sample weighs 1000.",
            maxLength=4096,
        ),
    ] = ""
    recent: Annotated[
        str,
        described(
            "AMOUNTxCOUNT of the last samples, the oldest first. They join the histogram once no "
            "wait can be added to them any more.",
            maxLength=16384,
        ),
    ] = ""


class PlanMove(Struct, frozen=True, kw_only=True):
    """A change of one nominal quota."""

    cluster_queue: Annotated[str, described("The ClusterQueue.", **_NAME)] = ""
    flavor: Annotated[str, described("The ResourceFlavor.", **_NAME)] = ""
    resource: Annotated[str, described("The resource.", **_NAME)] = ""
    before: Annotated[str, described("The nominal quota before.", required=True, maxLength=64)] = ""
    after: Annotated[str, described("The nominal quota after.", required=True, maxLength=64)] = ""


class ProposedMove(PlanMove, frozen=True, kw_only=True):
    """A proposed change, and what speaks for it."""

    p50: Annotated[str, described("Half of the time, demand is not above this.", maxLength=64)] = ""
    p80: Annotated[str, described("The same for 80 % of the time.", maxLength=64)] = ""
    p95: Annotated[str, described("The same for 95 % of the time.", maxLength=64)] = ""
    unmet_before: Annotated[
        str,
        described("Demand above the old quota in 14 days, in amounts times hours.", maxLength=64),
    ] = ""
    unmet_after: Annotated[str, described("The same above the new quota.", maxLength=64)] = ""
    borrows: Annotated[
        str,
        described(
            "What the queue's Workloads hold now above the new quota. They go on; the queues that "
            "lend it may take it back by their own rules of preemption.",
            maxLength=64,
        ),
    ] = ""


class PlanProposal(Struct, frozen=True, kw_only=True):
    """A change that nobody has agreed to yet."""

    hash: Annotated[str, described("What spec.approved must be.", maxLength=64)] = ""
    made_at: Annotated[str, described("When it was made.", **_TIME)] = ""
    since: Annotated[
        str,
        described("Since when every proposal has moved the same quotas the same way.", **_TIME),
    ] = ""
    moves: Annotated[
        tuple[ProposedMove, ...],
        described("The changes.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()


class WatchedQueue(Struct, frozen=True, kw_only=True):
    """How a queue that shrinks fared before the change."""

    cluster_queue: Annotated[str, described("The ClusterQueue.", **_NAME)] = ""
    wait_seconds: Annotated[
        int | None,
        described("The wait that nine in ten of its Workloads kept; absent: too few to tell."),
    ] = None
    reclaims: Annotated[
        int | None,
        described("Its Workloads that were stopped by Reclaim; absent: too few to tell."),
    ] = None


class PlanWatch(Struct, frozen=True, kw_only=True):
    """The queues that a change shrank, as long as it may be taken back by itself."""

    until: Annotated[str, described("The end.", **_TIME)] = ""
    queues: Annotated[
        tuple[WatchedQueue, ...],
        described("The queues that shrank.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()


class PlanChange(Struct, frozen=True, kw_only=True):
    """A change that is being applied."""

    hash: Annotated[str, described("Its hash.", maxLength=64)] = ""
    by: Annotated[str, described("Who agreed to it.", maxLength=1024)] = ""
    moves: Annotated[
        tuple[PlanMove, ...],
        described("The changes.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()
    watch: Annotated[PlanWatch | None, described("What is watched after it.")] = None
    harm: Annotated[
        str,
        described("Why it takes the last change back; empty: it does not.", maxLength=1024),
    ] = ""


class PlannedQuota(Struct, frozen=True, kw_only=True):
    """A nominal quota in a state."""

    cluster_queue: Annotated[str, described("The ClusterQueue.", **_NAME)] = ""
    flavor: Annotated[str, described("The ResourceFlavor.", **_NAME)] = ""
    resource: Annotated[str, described("The resource.", **_NAME)] = ""
    nominal: Annotated[str, described("The nominal quota.", maxLength=64)] = ""


class PlanState(Struct, frozen=True, kw_only=True):
    """The quotas as one change left them, or as they were before the first one."""

    number: Annotated[int, described("0: before the first change.", minimum=0)] = 0
    since: Annotated[str, described("When the change was complete.", **_TIME)] = ""
    by: Annotated[str, described("Who agreed to it.", maxLength=1024)] = ""
    quotas: Annotated[
        tuple[PlannedQuota, ...],
        described("All quotas of the plan.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()


class QuotaPlanStatus(Struct, frozen=True, kw_only=True):
    """What was measured, proposed and applied."""

    state: Annotated[str, described("What the plan does now.", enum=["", *PLAN_STATES])] = ""
    message: Annotated[str, described("Why, and what to do, for people.", maxLength=32768)] = ""
    observed_generation: Annotated[
        int, described("Generation that was looked at.", format="int64", minimum=0)
    ] = 0
    sampled_until: Annotated[str, described("The time of the last sample.", **_TIME)] = ""
    demand: Annotated[
        tuple[PlanDemand, ...],
        described("The measured demand.", maxItems=MAX_QUOTAS, list_type="atomic"),
    ] = ()
    looked_at: Annotated[
        str, described("When it was last decided whether to propose something.", **_TIME)
    ] = ""
    basis: Annotated[
        str, described("Stands for the spec and the quotas of that decision.", maxLength=64)
    ] = ""
    proposal: Annotated[PlanProposal | None, described("A change that waits for approval.")] = None
    change: Annotated[PlanChange | None, described("A change that is being applied.")] = None
    watch: Annotated[
        PlanWatch | None, described("Whom the last change shrank, while it may be taken back.")
    ] = None
    handled: Annotated[
        str, described("The value of spec.approved that was followed last.", maxLength=64)
    ] = ""
    changes: Annotated[int, described("How many changes were applied.", minimum=0)] = 0
    states: Annotated[
        tuple[PlanState, ...],
        described("The last states, the oldest first.", maxItems=MAX_STATES, list_type="atomic"),
    ] = ()


class QuotaPlan(Struct, frozen=True, kw_only=True):
    """Moves nominal quota between ClusterQueues of a Cohort, as measured demand suggests.

    The sums stay the same, and nothing is stopped. A change is applied once somebody agrees to it,
    or by itself in the mode Automatic.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[
        QuotaPlanSpec, described("Which quotas are moved, and how far.", required=True)
    ] = QuotaPlanSpec()
    status: Annotated[QuotaPlanStatus, described("What was measured, proposed and applied.")] = (
        msgspec.field(default_factory=QuotaPlanStatus)
    )
