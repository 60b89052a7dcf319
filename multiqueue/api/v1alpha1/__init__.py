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
    "DispatchProfile",
    "DispatchProfileSpec",
    "DispatchProfileStatus",
    "JobKind",
    "JobKindPodSet",
    "JobKindSpec",
    "JobKindStates",
    "JobKindStatus",
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
