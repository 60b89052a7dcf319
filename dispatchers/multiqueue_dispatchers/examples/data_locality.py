"""Send each job where most of its data is, among clusters that start it equally soon.

Jobs name the data sets that they read (``multiqueue.dev/data: dataset/imagenet,checkpoint/run-7``).
Clusters name those that they have, in the annotation of the same name on the MultiKueueCluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from multiqueue.plugins import DispatchView, Nomination, Option, bind, find_problems, survey


class DataLocality:
    """Nominates the cluster of the best tier that lacks the fewest data sets."""

    name = "data-locality"

    def nominate(self, view: DispatchView) -> Nomination:
        """Return the cluster with the most of the job's data."""

        def missing(option: Option) -> list[str]:
            return sorted(view.workload.data - option.cluster.data)

        return bind(
            survey(view),
            lambda option: len(missing(option)),
            because=lambda option: f"lacks {', '.join(missing(option)) or 'no data'}",
        )

    def check_arguments(self, arguments: Mapping[str, Any]) -> Sequence[str]:
        """Refuse every argument: there are none."""
        return find_problems(arguments, {})
