"""Metrics of dispatchers and of the DispatchProfiles that use them."""

from __future__ import annotations

from multiqueue.observability.families import counter, gauge
from multiqueue.observability.fleet_metrics import FleetMetrics


class DispatchMetrics(FleetMetrics):
    """How dispatchers behave, and which profile decides."""

    dispatch_failures_total = counter(
        "multiqueue_dispatch_failures_total",
        "Questions that a dispatcher had no answer to, by reason: NotLoaded, Raised, TimedOut, "
        "Ended, Malformed, or Paused after it hung or its process ended.",
        "dispatcher reason replica_role",
    )
    dispatch_misconduct_total = counter(
        "multiqueue_dispatch_misconduct_total",
        "Promises that a dispatcher was found not to keep: UnknownCluster, Unsteady, "
        "StartsThreads, KeepsObjects.",
        "dispatcher kind replica_role",
    )
    dispatcher_hung_threads = gauge(
        "multiqueue_dispatcher_hung_threads",
        "Threads of the manager in which calls of a dispatcher hang.",
        "dispatcher replica_role",
    )
    dispatcher_open_ways = gauge(
        "multiqueue_dispatcher_open_ways",
        "Ways out of the process of a dispatcher that the kernel cannot close; the log names them.",
        "dispatcher",
    )
    dispatch_decisions_total = counter(
        "multiqueue_dispatch_decisions_total",
        "Questions asked of a profile, by what came of it: Decided, Fallback or Failed.",
        "profile result replica_role",
    )
    dispatch_shadow_decisions_total = counter(
        "multiqueue_dispatch_shadow_decisions_total",
        "Views that the shadow of a profile answered to.",
        "profile replica_role",
    )
    dispatch_shadow_differences_total = counter(
        "multiqueue_dispatch_shadow_differences_total",
        "Answers of a shadow that would have led to other clusters.",
        "profile replica_role",
    )
    dispatch_canary_percent = gauge(
        "multiqueue_dispatch_canary_percent",
        "Percentage of a profile's Workloads that its canary decides for; 0 once it returned.",
        "profile replica_role",
    )
