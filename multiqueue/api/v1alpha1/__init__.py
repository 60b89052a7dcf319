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

__all__ = [
    "CanaryLimits",
    "CanarySpec",
    "CanaryStatus",
    "DispatchProfile",
    "DispatchProfileSpec",
    "DispatchProfileStatus",
    "Scorer",
    "ShadowSpec",
    "ShadowStatus",
    "SideStatus",
]
