"""The DisruptionPolicies of ``demo --policy``: shipped samples in the times of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiqueue.api import names

POLICIES: Mapping[str, Mapping[str, Any]] = {
    "gentle": {
        "maxPreemptedWorkloads": 8,
        "prefer": "LeastLostWork",
        "protection": {"minRun": {"queue": "5s", "reclaim": "5s"}, "growth": 2, "longest": "1m"},
        "waiting": {
            "passing": 100,
            "claims": 1,
            "after": "10s",
            "horizon": "10m",
            "ownQuota": "Waits",
        },
    }
}
"""Jobs of the demo take seconds, not hours. Its teams let their own jobs wait for each other's."""


def build_policy(name: str) -> dict[str, Any]:
    """Return the manifest of a policy."""
    return {
        "apiVersion": names.V1ALPHA1,
        "kind": "DisruptionPolicy",
        "metadata": {"name": name},
        "spec": dict(POLICIES[name]),
    }
