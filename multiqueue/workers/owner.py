"""Tells our objects on a worker from those of others (M-23). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.names import MANAGER, MULTIKUEUE_ORIGIN

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerIdentity:
    """A manager, as its objects on workers name it.

    Two managers with the same origin are told apart by the clusters that they run on: an object of
    the other manager is not ours. An object from before stamps existed is ours.

    Deviates: upstream uses the origin alone; two managers with the same origin delete each other's
    objects (M-174).

    Attributes:
        origin: Value of the origin label.
        manager: uid of the kube-system namespace of the manager's cluster; empty: not known.
    """

    origin: str
    manager: str = ""

    def owns(self, workload: api.Workload) -> bool:
        """Whether a Workload is a copy of ours."""
        metadata = workload.metadata
        return self._is_ours(metadata.labels, metadata.annotations)

    def owns_job(self, job: Json) -> bool:
        """Whether a remote job is ours."""
        return self._is_ours(*_marks(job))

    def has_lost_label(self, workload: api.Workload) -> bool:
        """Whether a copy has our stamp but somebody removed its origin label."""
        metadata = workload.metadata
        return self._lacks_label(metadata.labels, metadata.annotations)

    def has_job_lost_label(self, job: Json) -> bool:
        """Whether a remote job has our stamp but somebody removed its origin label."""
        return self._lacks_label(*_marks(job))

    def find_twin(self, workload: api.Workload) -> str:
        """Return the stamp of another manager with our origin; empty if there is none."""
        metadata = workload.metadata
        return self._twin(metadata.labels, metadata.annotations)

    def find_job_twin(self, job: Json) -> str:
        """Return the stamp of another manager with our origin; empty if there is none."""
        return self._twin(*_marks(job))

    def describe(self, twin: str) -> str:
        """Say who owns a foreign object: another manager with our origin, or somebody else."""
        if not twin:
            return "belongs to somebody else"
        return (
            f'belongs to another manager with the same origin "{self.origin}" (cluster {twin}); '
            "give each manager a multiKueue.origin of its own; of one that is gone, such as this "
            f"one before it moved, take {MANAGER} off what it left there"
        )

    def _is_ours(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        stamp = annotations.get(MANAGER, "")
        return labels.get(MULTIKUEUE_ORIGIN) == self.origin and stamp in {"", self.manager}

    def _lacks_label(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        is_stamped = bool(self.manager) and annotations.get(MANAGER) == self.manager
        return is_stamped and MULTIKUEUE_ORIGIN not in labels

    def _twin(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
        stamp = annotations.get(MANAGER, "")
        same_origin = labels.get(MULTIKUEUE_ORIGIN) == self.origin
        return stamp if same_origin and stamp != self.manager else ""


def _marks(job: Json) -> tuple[Mapping[str, str], Mapping[str, str]]:
    metadata = job["metadata"]
    return metadata.get("labels") or {}, metadata.get("annotations") or {}
