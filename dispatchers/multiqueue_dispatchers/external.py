"""Follow a controller outside that writes the Workload's ``status.nominatedClusterNames``.

A cluster that the controller adds gets a copy; a cluster that it removes loses its copy. The first
cluster to admit the Workload runs it. The list is emptied when a cluster runs the Workload, and
when the Workload is evicted, in the same write. Otherwise only the controller changes the list,
by patch or apply.

Parity: M-116 to M-118.
Deviates: no MutatingAdmissionPolicy is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import ClusterVerdict, DispatchView, Nomination, find_problems, judge


class External:
    """Nominates nothing of its own."""

    name = "external"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the nominated clusters that the check has; the core reports the others."""
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
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
