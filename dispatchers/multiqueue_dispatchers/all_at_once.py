"""Offer the Workload to every usable cluster at once; the first to admit it runs it.

Upstream's default. It leads to the earliest start, at the cost of one copy per cluster. A Workload
that no worker can ever hold does not get here: the core refuses it for every dispatcher.

Parity: M-110.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination, find_problems


class AllAtOnce:
    """Nominates every cluster that can take the Workload, sorted by name."""

    name = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return all usable clusters."""
        usable = sorted(cluster.name for cluster in view.clusters if not cluster.unusable)
        verdicts = (
            ClusterVerdict(cluster=c.name, nominated=not c.unusable, reason=c.unusable)
            for c in sorted(view.clusters, key=lambda cluster: cluster.name)
        )
        return Nomination(clusters=tuple(usable), verdicts=tuple(verdicts))

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
