"""Kinds of our own group, multiqueue.dev: one Struct per kind and per nested type."""

from __future__ import annotations

from multiqueue.api.v1alpha1.dispatch_profile import (
    CanaryLimits,
    CanarySpec,
    CanaryStatus,
    DispatchProfile,
    DispatchProfileSpec,
    DispatchProfileStatus,
    Scorer,
    ShadowSpec,
    ShadowStatus,
    SideStatus,
)
from multiqueue.api.v1alpha1.disruption_policy import (
    ClaimsOfWaiting,
    CostAssumptions,
    DisruptionBudget,
    DisruptionPolicy,
    DisruptionPolicySpec,
    DisruptionPolicyStatus,
    DisruptionProtection,
    MinimumRun,
)
from multiqueue.api.v1alpha1.job_kind import (
    AdmissionPaths,
    JobKind,
    JobKindPodSet,
    JobKindSpec,
    JobKindStates,
    JobKindStatus,
    RemoteCopy,
    SuspendField,
)
from multiqueue.api.v1alpha1.usage_report import (
    UsageReport,
    UsageReportRow,
    UsageReportStatus,
)

__all__ = [
    "AdmissionPaths",
    "CanaryLimits",
    "CanarySpec",
    "CanaryStatus",
    "ClaimsOfWaiting",
    "CostAssumptions",
    "DispatchProfile",
    "DispatchProfileSpec",
    "DispatchProfileStatus",
    "DisruptionBudget",
    "DisruptionPolicy",
    "DisruptionPolicySpec",
    "DisruptionPolicyStatus",
    "DisruptionProtection",
    "JobKind",
    "JobKindPodSet",
    "JobKindSpec",
    "JobKindStates",
    "JobKindStatus",
    "MinimumRun",
    "RemoteCopy",
    "Scorer",
    "ShadowSpec",
    "ShadowStatus",
    "SideStatus",
    "SuspendField",
    "UsageReport",
    "UsageReportRow",
    "UsageReportStatus",
]
