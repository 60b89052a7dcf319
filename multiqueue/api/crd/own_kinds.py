"""The kinds that upstream does not have, for their CustomResourceDefinitions."""

from __future__ import annotations

from multiqueue.api.crd.kinds import Column, CustomKind
from multiqueue.api.v1alpha1 import (
    DispatchProfile,
    DisruptionPolicy,
    JobKind,
    QuotaPlan,
    UsageReport,
)

_AGE = Column(name="Age", path=".metadata.creationTimestamp", type="date")
_PROFILE_COLUMNS = (
    Column(name="Dispatcher", path=".spec.dispatcher"),
    Column(name="Active", path='.status.conditions[?(@.type=="Active")].status'),
    Column(
        name="Healthy",
        path='.status.conditions[?(@.type=="Healthy")].status',
        description="Whether its dispatcher answers, and keeps its promises",
    ),
    Column(
        name="Decisions",
        path=".status.decisions",
        type="integer",
        description="Questions that were answered",
    ),
    Column(
        name="Failures",
        path=".status.failures",
        type="integer",
        description="Questions that its dispatcher had no answer to",
    ),
    Column(
        name="Differences",
        path=".status.shadow.differences",
        type="integer",
        description="Answers of the shadow that name other clusters",
    ),
    Column(name="Canary", path=".status.canary.state", description="Running, Returned or Broken"),
    _AGE,
)
_DISRUPTION_COLUMNS = (
    Column(name="Prefer", path=".spec.prefer", description="Whom preemption stops first"),
    Column(name="Active", path='.status.conditions[?(@.type=="Active")].status'),
    Column(name="Reason", path='.status.conditions[?(@.type=="Active")].reason'),
    _AGE,
)
_JOB_KIND_COLUMNS = (
    Column(name="Group", path=".spec.group"),
    Column(name="Kind", path=".spec.kind"),
    Column(
        name="Accepted",
        path='.status.conditions[?(@.type=="Accepted")].status',
        description="Whether its expressions can be used",
    ),
    Column(
        name="Active",
        path='.status.conditions[?(@.type=="Active")].status',
        description="Whether its objects are queued",
    ),
    Column(
        name="Reason",
        path='.status.conditions[?(@.type=="Active")].reason',
        description="Why they are, or are not",
    ),
    Column(
        name="Healthy",
        path='.status.conditions[?(@.type=="Healthy")].status',
        description="Whether every expression had a value for every object",
    ),
    _AGE,
)

_PLAN_COLUMNS = (
    Column(name="Cohort", path=".spec.cohort"),
    Column(name="Mode", path=".spec.mode"),
    Column(name="State", path=".status.state", description="What the plan does now"),
    Column(name="Proposal", path=".status.proposal.hash", description="What may be approved"),
    Column(name="Changes", path=".status.changes", type="integer", description="Applied so far"),
    _AGE,
)
_USAGE_COLUMNS = (
    Column(name="Through", path=".status.through", description="Until when all is counted"),
    Column(name="Gap", path=".status.gapSeconds", type="integer", description="In seconds"),
    _AGE,
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
