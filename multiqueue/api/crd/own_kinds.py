"""The kinds that upstream does not have, for their CustomResourceDefinitions."""

from __future__ import annotations

from multiqueue.api.crd.kinds import AGE, Column, CustomKind, condition
from multiqueue.api.v1alpha1 import (
    DispatchProfile,
    DisruptionPolicy,
    JobKind,
    QuotaPlan,
    UsageReport,
)

_PROFILE_COLUMNS = (
    Column("Dispatcher", ".spec.dispatcher"),
    Column("Active", condition("Active")),
    Column(
        "Healthy", condition("Healthy"), "Whether its dispatcher answers, and keeps its promises"
    ),
    Column("Decisions", ".status.decisions", "Questions that were answered", type="integer"),
    Column(
        "Failures",
        ".status.failures",
        "Questions that its dispatcher had no answer to",
        type="integer",
    ),
    Column(
        "Differences",
        ".status.shadow.differences",
        "Answers of the shadow that name other clusters",
        type="integer",
    ),
    Column("Canary", ".status.canary.state", "Running, Returned or Broken"),
    AGE,
)
_DISRUPTION_COLUMNS = (
    Column("Prefer", ".spec.prefer", "Whom preemption stops first"),
    Column("Active", condition("Active")),
    Column("Reason", condition("Active", "reason")),
    AGE,
)
_JOB_KIND_COLUMNS = (
    Column("Group", ".spec.group"),
    Column("Kind", ".spec.kind"),
    Column("Accepted", condition("Accepted"), "Whether its expressions can be used"),
    Column("Active", condition("Active"), "Whether its objects are queued"),
    Column("Reason", condition("Active", "reason"), "Why they are, or are not"),
    Column(
        "Healthy", condition("Healthy"), "Whether every expression had a value for every object"
    ),
    AGE,
)

_PLAN_COLUMNS = (
    Column("Cohort", ".spec.cohort"),
    Column("Mode", ".spec.mode"),
    Column("State", ".status.state", "What the plan does now"),
    Column("Proposal", ".status.proposal.hash", "What may be approved"),
    Column("Changes", ".status.changes", "Applied so far", type="integer"),
    AGE,
)
_USAGE_COLUMNS = (
    Column("Through", ".status.through", "Until when all is counted"),
    Column("Gap", ".status.gapSeconds", "In seconds", type="integer"),
    AGE,
)

OWN_KINDS = tuple(
    CustomKind(
        struct=struct,
        plural=plural,
        short_names=(short_name,),
        namespaced=namespaced,
        columns=columns,
    )
    for struct, plural, short_name, namespaced, columns in (
        (DispatchProfile, "dispatchprofiles", "dprof", False, _PROFILE_COLUMNS),
        (DisruptionPolicy, "disruptionpolicies", "dpol", False, _DISRUPTION_COLUMNS),
        (JobKind, "jobkinds", "jkind", False, _JOB_KIND_COLUMNS),
        (QuotaPlan, "quotaplans", "qplan", False, _PLAN_COLUMNS),
        (UsageReport, "usagereports", "usage", True, _USAGE_COLUMNS),
    )
)
