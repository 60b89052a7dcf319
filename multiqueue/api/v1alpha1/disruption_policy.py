"""DisruptionPolicy: which running Workloads may be stopped for others, when, and how many."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from multiqueue.api.markers import DURATION_PATTERN, SchemaRule, described
from multiqueue.api.v1beta2.admission_check import CONDITIONS
from multiqueue.api.v1beta2.meta import Condition, ObjectMeta, Struct

_DURATION: dict[str, Any] = {"maxLength": 32, "pattern": DURATION_PATTERN}
_COUNT: dict[str, Any] = {"default": 0, "minimum": 0, "maximum": 1_000_000}
_SECONDS: dict[str, Any] = {"format": "int64", "default": 0, "minimum": 0}
_WINDOW = SchemaRule(
    "!has(self.window) || (duration(self.window) >= duration('1m') && "
    "duration(self.window) <= duration('168h'))",
    "window must be between 1m and 168h",
)
PREFERENCES = ("Default", "LeastLostWork", "LeastRun", "FewestVictims", "SmallestThatFits")
SCOPES = ("Policy", "ClusterQueue", "Namespace", "Owner")
CAUSES = ("Queue", "FairShare", "Reclaim", "Migration")


class DisruptionBudget(Struct, frozen=True, kw_only=True):
    """How much may be stopped within a time."""

    rules: ClassVar = (
        SchemaRule(
            "(has(self.maxWorkloads) && self.maxWorkloads > 0) || "
            "(has(self.maxDeviceSeconds) && self.maxDeviceSeconds > 0) || "
            "(has(self.maxLostPercent) && self.maxLostPercent > 0)",
            "one of maxWorkloads, maxDeviceSeconds and maxLostPercent must be more than 0",
        ),
        SchemaRule(
            "!has(self.maxLostPercent) || self.maxLostPercent == 0 || !has(self.per) || "
            "self.per in ['Policy', 'ClusterQueue']",
            "maxLostPercent needs quota to be a part of; set per to Policy or ClusterQueue",
        ),
        _WINDOW,
    )

    name: Annotated[
        str,
        described("Name of the budget, for messages.", required=True, minLength=1, maxLength=63),
    ] = ""
    per: Annotated[
        str,
        described(
            "Whose stops are added up: those of all Workloads under the policy, or those of each "
            "ClusterQueue, of each Namespace, or of each owner. The owner is the value of the "
            "Namespace's label multiqueue.dev/owner, else the Namespace.",
            default="Policy",
            enum=list(SCOPES),
        ),
    ] = "Policy"
    window: Annotated[
        str,
        described(
            "Time over which stops are added up; from 1m to 168h.", default="24h", **_DURATION
        ),
    ] = "24h"
    max_workloads: Annotated[
        int, described("The most stops in any such time; 0 means no limit.", **_COUNT)
    ] = 0
    max_device_seconds: Annotated[
        int,
        described(
            "The most device-seconds that have to be done again because of stops in any such time; "
            "0 means no limit. One stop may exceed it if no other is within the window.",
            **_SECONDS,
        ),
    ] = 0
    max_lost_percent: Annotated[
        int,
        described(
            "The same as a part of the nominal quota of accelerators; 0 means no limit.",
            default=0,
            minimum=0,
            maximum=100,
        ),
    ] = 0
    causes: Annotated[
        tuple[Annotated[str, described("", enum=list(CAUSES))], ...],
        described(
            "Which stops count. Reclaim is what lending rests on, so it must be named to count.",
            default=["Queue", "FairShare", "Migration"],
            minItems=1,
            maxItems=4,
            list_type="set",
        ),
    ] = ("Queue", "FairShare", "Migration")


class CostAssumptions(Struct, frozen=True, kw_only=True):
    """What a stop costs a job that declares nothing, and the most that it may claim."""

    undeclared: Annotated[
        str,
        described(
            "The most lost work that counts for a job that does not report checkpoints.",
            default="30m",
            **_DURATION,
        ),
    ] = "30m"
    longest_interval: Annotated[
        str,
        described("The most lost work that counts for a job that does.", default="1h", **_DURATION),
    ] = "1h"
    restart: Annotated[
        str,
        described(
            "Time from the start of a job until it does new work, if the job does not declare it.",
            default="2m",
            **_DURATION,
        ),
    ] = "2m"
    longest_restart: Annotated[
        str,
        described("The longest such time that a job may declare.", default="15m", **_DURATION),
    ] = "15m"


class MinimumRun(Struct, frozen=True, kw_only=True):
    """How long an admitted Workload runs before it may be stopped, by the cause."""

    queue: Annotated[
        str,
        described("For a higher priority in its own ClusterQueue.", default="0s", **_DURATION),
    ] = "0s"
    reclaim: Annotated[
        str,
        described("For the owner of quota that it borrows.", default="0s", **_DURATION),
    ] = "0s"
    fair_share: Annotated[
        str,
        described(
            "For a ClusterQueue with a smaller share, and before it moves to another worker.",
            default="0s",
            **_DURATION,
        ),
    ] = "0s"


class NonPreemptibleJobs(Struct, frozen=True, kw_only=True):
    """How many jobs may say that nobody stops them for others."""

    percent: Annotated[
        int,
        described(
            "How much of the nominal quota of its ClusterQueue, in each flavor, jobs with the "
            "annotation multiqueue.dev/non-preemptible may hold together; others that ask for it "
            "wait. Only accelerators count for a job that requests any. 0 means that the "
            "annotation has no effect.",
            default=0,
            minimum=0,
            maximum=100,
        ),
    ] = 0
    longest_run: Annotated[
        str,
        described(
            "The longest that such a job may say it runs, with the label "
            "kueue.x-k8s.io/max-exec-time-seconds; without it the annotation has no effect.",
            default="24h",
            **_DURATION,
        ),
    ] = "24h"


class DisruptionProtection(Struct, frozen=True, kw_only=True):
    """When a Workload may not be stopped for another one."""

    rules: ClassVar = (_WINDOW,)

    min_run: Annotated[
        MinimumRun, described("How long it runs before it may be stopped.", default={})
    ] = MinimumRun()
    growth: Annotated[
        int,
        described(
            "Each stop within the window multiplies minRun by this.",
            default=1,
            minimum=1,
            maximum=4,
        ),
    ] = 1
    longest: Annotated[
        str, described("minRun does not grow beyond this.", default="2h", **_DURATION)
    ] = "2h"
    max_preemptions: Annotated[
        int, described("The most stops of one Workload in the window; 0 means no limit.", **_COUNT)
    ] = 0
    window: Annotated[
        str,
        described(
            "Time for growth and maxPreemptions; from 1m to 168h.", default="24h", **_DURATION
        ),
    ] = "24h"
    concede: Annotated[
        str,
        described(
            "The longest that minRun and maxPreemptions of others may hold up a Workload of this "
            "queue that takes back quota which its queue lent.",
            default="2h",
            **_DURATION,
        ),
    ] = "2h"
    non_preemptible: Annotated[
        NonPreemptibleJobs,
        described("How many jobs may say that nobody stops them for others.", default={}),
    ] = NonPreemptibleJobs()


class NoticeOfPreemption(Struct, frozen=True, kw_only=True):
    """Whether a job may save its work, or end, before it is stopped for another one."""

    longest: Annotated[
        str,
        described(
            "The longest time that a job with the annotation multiqueue.dev/checkpoint-on: Notice "
            "gets to save its work, after it was told; 0s means that it is stopped at once.",
            default="0s",
            **_DURATION,
        ),
    ] = "0s"
    hooks: Annotated[
        bool,
        described(
            "Whether a notice is also posted to the Service that a job names in the annotation "
            "multiqueue.dev/checkpoint-hook. It needs the role of config/checkpoint-hooks, or of "
            "config/worker-role-hooks where jobs run on workers.",
            default=False,
        ),
    ] = False
    patience: Annotated[
        str,
        described(
            "How much longer than a stop would take a Workload of these ClusterQueues waits for "
            "others to end by themselves, if the stop costs more than the wait. Ends are known of "
            "jobs with the label kueue.x-k8s.io/max-exec-time-seconds; 0s means that it stops "
            "others at once.",
            default="0s",
            **_DURATION,
        ),
    ] = "0s"


class ClaimsOfWaiting(Struct, frozen=True, kw_only=True):
    """In which order Workloads wait, and when room is kept for one that waits for more."""

    passing: Annotated[
        int,
        described(
            "For how long later Workloads of the same priority may pass a waiting one: the "
            "percentage of its own device time, which is its devices times the run time that is "
            "expected of it: what earlier jobs took, compared with what they declared "
            "(multiqueue.dev/runtime), or in the same job class. Of two Workloads the one comes "
            "first that was submitted earlier plus its own time. "
            "0 means the order of submission.",
            default=0,
            minimum=0,
            maximum=1000,
        ),
    ] = 0
    claims: Annotated[
        int,
        described(
            "How many Workloads of a cohort tree have room kept for them; 0 means that none has.",
            default=0,
            minimum=0,
            maximum=1,
        ),
    ] = 0
    after: Annotated[
        str, described("How long a Workload waits before that.", default="4h", **_DURATION)
    ] = "4h"
    horizon: Annotated[
        str,
        described(
            "No room is kept for a start that is farther off than this.", default="24h", **_DURATION
        ),
    ] = "24h"
    own_quota: Annotated[
        str,
        described(
            "What Workloads of these ClusterQueues do that stay within their nominal quota and "
            "would delay a Workload of another ClusterQueue with room kept for it. Without Waits, "
            "nothing is kept from the owners of quota for who borrows it.",
            default="Passes",
            enum=["Passes", "Waits"],
        ),
    ] = "Passes"


class MovesForOthers(Struct, frozen=True, kw_only=True):
    """Whether a running Workload moves to another worker so that a gang starts sooner."""

    gain: Annotated[
        int,
        described(
            "How many times what a move costs it must save at least, both in device-seconds; 0 "
            "means that no Workload of these ClusterQueues is moved for another one.",
            default=0,
            minimum=0,
            maximum=100,
        ),
    ] = 0


class DisruptionPolicySpec(Struct, frozen=True, kw_only=True):
    """What preemption may do; every default is what Kueue does."""

    max_preempted_workloads: Annotated[
        int,
        described("The most Workloads that leave for one Workload; 0 means no limit.", **_COUNT),
    ] = 0
    max_device_seconds: Annotated[
        int,
        described(
            "The most device-seconds that have to be done again for one Workload; 0 means no "
            "limit.",
            **_SECONDS,
        ),
    ] = 0
    budgets: Annotated[
        tuple[DisruptionBudget, ...],
        described("How much may be stopped within a time.", maxItems=16, list_map_keys=("name",)),
    ] = ()
    prefer: Annotated[
        str,
        described(
            "Who is stopped first among candidates of the same priority: the newest (Default), who "
            "loses the least device-seconds per device, who has run for the shortest time, the "
            "largest, or the smallest one that makes room alone.",
            default="Default",
            enum=list(PREFERENCES),
        ),
    ] = "Default"
    cost: Annotated[CostAssumptions, described("What a stop is assumed to cost.", default={})] = (
        CostAssumptions()
    )
    protection: Annotated[
        DisruptionProtection,
        described("When a Workload may not be stopped for another one.", default={}),
    ] = DisruptionProtection()
    notice: Annotated[
        NoticeOfPreemption,
        described("Whether jobs may save their work before they are stopped.", default={}),
    ] = NoticeOfPreemption()
    waiting: Annotated[
        ClaimsOfWaiting,
        described("In which order Workloads wait, and when room is kept.", default={}),
    ] = ClaimsOfWaiting()
    migration: Annotated[
        MovesForOthers,
        described("Whether Workloads move to other workers for a waiting gang.", default={}),
    ] = MovesForOthers()
    exempt_priority: Annotated[
        int | None,
        described(
            "Workloads of at least this priority are not held up by protection and budgets; absent "
            "means that all are."
        ),
    ] = None


class DisruptionPolicyStatus(Struct, frozen=True, kw_only=True):
    """Whether a policy can be used."""

    conditions: Annotated[tuple[Condition, ...], CONDITIONS] = ()


class DisruptionPolicy(Struct, frozen=True, kw_only=True):
    """Which running Workloads may be stopped for others, when, and how many.

    ClusterQueues and Cohorts name one in the annotation multiqueue.dev/disruption-policy. The
    nearest one counts for a ClusterQueue: its own, else that of its Cohort, and so on.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[DisruptionPolicySpec, described("What preemption may do.", default={})] = (
        DisruptionPolicySpec()
    )
    status: Annotated[DisruptionPolicyStatus, described("Whether it can be used.")] = msgspec.field(
        default_factory=DisruptionPolicyStatus
    )
