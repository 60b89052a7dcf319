"""Follow what an outside controller writes to ``status.nominatedClusterNames`` of the Workload.

Names that are added get a copy, from those that are taken off it is withdrawn; the first to admit
it runs it. The list is emptied when a cluster runs the Workload and when it is evicted, in the very
write that says so; else it is left to the controller, which may patch or apply it as it likes.

Parity: M-116 to M-118.
Deviates: no MutatingAdmissionPolicy is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination, find_problems, judge


class External:
    """Nominates nothing by itself."""

    name = "external"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return what is nominated; what is no cluster of the check is told by the core."""
        names = tuple(n for n in dict.fromkeys(view.nominated) if view.find_cluster(n) is not None)
        verdicts = (
            ClusterVerdict(
                cluster=cluster.name, nominated=True, reason=judge(view.workload, cluster).reason
            )
            for cluster in view.clusters
            if cluster.name in names
        )
        writer = view.dispatcher or self.name
        return Nomination(
            clusters=names,
            verdicts=tuple(verdicts),
            note=""
            if view.nominated
            else f'the controller of dispatcher "{writer}" nominates clusters',
            external=True,
        )

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse all: there are none."""
        return find_problems(arguments, {})
