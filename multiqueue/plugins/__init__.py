"""What a dispatcher author imports. Everything named here is public and keeps its shape.

See ``dispatchers/README.md`` for how to write, test, install and choose a dispatcher.
"""

from __future__ import annotations

from multiqueue.plugins.arguments import read_choice, read_count, read_duration
from multiqueue.plugins.capacity import (
    Fit,
    Limit,
    Outlook,
    find_refusal,
    judge,
    place,
    scarce_resource,
)
from multiqueue.plugins.dispatcher import ChecksArguments, Dispatcher
from multiqueue.plugins.forecast import (
    Basis,
    Forecast,
    Prospect,
    Runtime,
    StartEstimate,
    Victim,
)
from multiqueue.plugins.foresee import foresee
from multiqueue.plugins.hardware import Grade, grade_flavor
from multiqueue.plugins.nomination import ClusterVerdict, Nomination
from multiqueue.plugins.view import (
    ClusterView,
    CopyState,
    DispatchView,
    FlavorView,
    PodSetView,
    QueueView,
    QuotaView,
    ReservedFlavor,
    ResourceGroupView,
    Round,
    WeightedTerm,
    WorkloadView,
)

__all__ = [
    "Basis",
    "ChecksArguments",
    "ClusterVerdict",
    "ClusterView",
    "CopyState",
    "DispatchView",
    "Dispatcher",
    "Fit",
    "FlavorView",
    "Forecast",
    "Grade",
    "Limit",
    "Nomination",
    "Outlook",
    "PodSetView",
    "Prospect",
    "QueueView",
    "QuotaView",
    "ReservedFlavor",
    "ResourceGroupView",
    "Round",
    "Runtime",
    "StartEstimate",
    "Victim",
    "WeightedTerm",
    "WorkloadView",
    "find_refusal",
    "foresee",
    "grade_flavor",
    "judge",
    "place",
    "read_choice",
    "read_count",
    "read_duration",
    "scarce_resource",
]
