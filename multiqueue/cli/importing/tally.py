"""What an import found and did, counted; memory does not grow with the number of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.cli.importing.decide import ImportProblem, ImportSkip, PlannedImport
from multiqueue.lib.amount import Amount
from multiqueue.model.resources import format_amount, parse_quota


@dataclass(slots=True)
class ImportTally:
    """Counts by result, with an example of each problem.

    Attributes:
        planned: Jobs that can be imported, or were, by (LocalQueue, ClusterQueue).
        skipped: Jobs without need of an import, by reason.
        problems: Jobs that cannot be imported, by message.
        examples: The first job with each problem.
        usage: Quota for all planned jobs, by (ClusterQueue, flavor, resource).
    """

    planned: Counter[tuple[str, str]] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    usage: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, name: str, result: PlannedImport | ImportSkip | ImportProblem) -> None:
        """Count the result of one job."""
        match result:
            case ImportSkip(reason):
                self.skipped[reason] += 1
            case ImportProblem(message):
                self.problems[message] += 1
                self.examples.setdefault(message, name)
            case PlannedImport():
                namespace = result.job["metadata"]["namespace"]
                self.planned[f"{namespace}/{result.queue}", result.cluster_queue] += 1
                for key, amount in result.usage().items():
                    self.usage[key] += amount

    @property
    def total(self) -> int:
        """All jobs that were looked at."""
        return self.planned.total() + self.skipped.total() + self.problems.total()

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return {
            "total": self.total,
            "planned": [
                {"localQueue": queue, "clusterQueue": cluster_queue, "jobs": count}
                for (queue, cluster_queue), count in sorted(self.planned.items())
            ],
            "usage": [
                {
                    "clusterQueue": queue,
                    "flavor": flavor,
                    "resource": resource,
                    "amount": format_amount(resource, amount),
                }
                for (queue, flavor, resource), amount in sorted(self.usage.items())
            ],
            "skipped": dict(sorted(self.skipped.items())),
            "problems": [
                {"message": message, "jobs": count, "example": self.examples[message]}
                for message, count in self.problems.most_common()
            ],
        }


def find_shortages(tally: ImportTally, queues: Mapping[str, api.ClusterQueue]) -> list[str]:
    """Return the flavors that do not have enough quota for what runs already.

    It is imported anyway: it does run. The queue admits nothing more until enough of it has ended.
    """
    return [
        text
        for (name, flavor, resource), amount in sorted(tally.usage.items())
        if (text := _find_shortage(queues[name], flavor, resource, amount))
    ]


def _find_shortage(queue: api.ClusterQueue, flavor: str, resource: str, amount: Amount) -> str:
    quota = next(
        each
        for group in queue.spec.resource_groups
        for quotas in group.flavors
        if quotas.name == flavor
        for each in quotas.resources
        if each.name == resource
    )
    nominal = parse_quota(resource, quota.nominal_quota)
    used = sum(
        parse_quota(resource, each.total)
        for usage in queue.status.flavors_reservation
        if usage.name == flavor
        for each in usage.resources
        if each.name == resource
    )
    if used + amount <= nominal:
        return ""
    borrows = f', the rest is borrowed from cohort "{queue.spec.cohort_name}"'
    return (
        f'ClusterQueue "{queue.metadata.name}", flavor "{flavor}", {resource}: '
        f"{format_amount(resource, used)} used and {format_amount(resource, amount)} to import, "
        f"of {format_amount(resource, nominal)} nominal{borrows if queue.spec.cohort_name else ''}"
    )
