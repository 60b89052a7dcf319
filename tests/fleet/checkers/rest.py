"""What is left when all is healed and done."""

from __future__ import annotations

from tests.fleet.checkers.checker import Checker, Report
from tests.fleet.checkers.words import describe, has, is_ours
from tests.fleet.history import Change
from tests.fleet.kinds import has_ended
from tests.fleet.world import HUB, FleetWorld


class NothingIsLost(Checker):
    """Every job that nobody deleted has ended."""

    def at_end(self) -> None:
        for job in self.world.list_jobs(HUB):
            name = job["metadata"]["name"]
            workload = self.world.workload_of(name)
            if not has_ended(job):
                self.report(f"{name} never ends: {describe(workload)}")
            elif workload is not None and not has(workload, "Finished"):
                self.report(f"{name} ended, its Workload did not: {describe(workload)}")


class NoOrphans(Checker):
    """I-4."""

    def at_end(self) -> None:
        for name, server in self.world.workers.items():
            for plural in ("workloads", *self.world.job_plurals):
                for obj in server.list_all(plural):
                    if is_ours(obj):
                        self.report(f"{name} still has {plural} {obj['metadata']['name']}")


class RestIsQuiet(Checker):
    """When all is done nobody writes any more."""

    ALLOWED = frozenset(
        {
            "leases",
            "clusterqueues",
            "localqueues",
            "cohorts",
            "multikueueclusters",
            "admissionchecks",
            "configmaps",
            "usagereports",
        }
    )
    """Status, and what workers can do: a look at one that failed is repeated minutes later. Usage
    is written down within five minutes."""

    def __init__(self, world: FleetWorld, report: Report) -> None:
        super().__init__(world, report)
        self.is_over = False

    def on_change(self, change: Change) -> None:
        if self.is_over and change.plural not in self.ALLOWED:
            self.report(f"all is done, yet {change}")
