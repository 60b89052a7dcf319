"""Replay recorded scenarios against the engine in process, on a virtual clock.

The semantics of a step are those of the driver that recorded them: its operations, then waiting
until nothing changes for 1.2 s; a step lasts at least 1.4 s. What is compared is what the driver
looks at: per Job, what was decided about its Workload.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import WorkloadCondition, is_true
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import AdmissionFairSharing, EngineOptions, FairSharing
from multiqueue.model.disruption_policy import DisruptionRules
from multiqueue.model.topology_encoding import decode_topology
from tests.conformance.virtual_cluster import QR, VirtualCluster, VirtualJob

DATA = Path(__file__).parent / "data"
MIN_STEP, QUIET = timedelta(seconds=1.4), timedelta(seconds=1.2)
START = datetime(2026, 1, 1, tzinfo=UTC)

Record = dict[str, dict[str, Any]]


def options_of(scenario: dict[str, Any]) -> EngineOptions:
    """Return how the reference was configured for the profile of a scenario."""
    profile = scenario["name"].rpartition("-")[0]
    if profile in {"fair", "fairhier", "deepfair"}:
        return EngineOptions(fair_sharing=FairSharing())
    if profile == "afs":
        sharing = AdmissionFairSharing(
            half_life=timedelta(hours=1), sampling_interval=timedelta(seconds=1)
        )
        return EngineOptions(admission_fair_sharing=sharing)
    return EngineOptions()


def replay(scenario: dict[str, Any], *policies: DisruptionRules) -> list[Record]:
    """Return what was decided after each step of a scenario."""
    cluster = VirtualCluster(engine=Engine(options_of(scenario)), now=START)
    for policy in policies:
        cluster.engine.upsert_disruption_policy(policy)
    for obj in scenario["setup"]:
        cluster.create(obj)
    cluster.settle(at_least=MIN_STEP, quiet=QUIET)
    records = []
    for step in scenario["steps"]:
        seen = {job.name: (job.suspended, job.workload) for job in cluster.jobs.values()}
        for operation in step:
            _do(cluster, operation, seen)
            cluster.run_engine()
        cluster.settle(at_least=MIN_STEP, quiet=QUIET)
        records.append({job.name: view(job) for job in cluster.jobs.values()})
    return records


def _do(cluster: VirtualCluster, operation: dict[str, Any], seen: dict[str, Any]) -> None:
    match operation["op"]:
        case "create":
            cluster.create(operation["object"])
        case "apply":
            cluster.apply(operation["object"])
        case "delete-job":
            cluster.delete(operation["name"])
        case "finish-oldest-admitted":
            running = sorted(
                name
                for name, (suspended, _) in seen.items()
                if not suspended and name in cluster.jobs and not cluster.jobs[name].finished
            )
            if running:
                cluster.finish(running[min(operation["skip"], len(running) - 1)])
        case "set-checks":
            pending = sorted(
                (name, check.name)
                for name, (_, workload) in seen.items()
                if is_true(workload.status.conditions, QR)
                for check in workload.status.admission_checks
                if check.state == "Pending"
            )
            if pending:
                name, check = pending[min(operation["pick"], len(pending) - 1)]
                if name in cluster.jobs:
                    cluster.set_check(name, check, operation["state"])


def view(job: VirtualJob) -> dict[str, Any]:
    """What the driver records about a Job."""
    if job.finished:
        return {"finished": True}
    status = job.workload.status
    shown: dict[str, Any] = {"suspended": job.suspended, "finished": False}
    shown["reserved"] = is_true(status.conditions, QR) and status.admission is not None
    shown["admitted"] = is_true(status.conditions, WorkloadCondition.ADMITTED)
    if shown["reserved"]:
        shown["clusterQueue"] = status.admission.cluster_queue
        shown["podSets"] = [_pod_set(ps) for ps in status.admission.pod_set_assignments]
    elif is_true(status.conditions, WorkloadCondition.EVICTED):
        evicted = next(c for c in status.conditions if c.type == WorkloadCondition.EVICTED)
        shown["evicted"] = evicted.reason
    if status.admission_checks:
        shown["checks"] = {c.name.split("-")[-1]: c.state for c in status.admission_checks}
    if not job.workload.spec.active:
        shown["active"] = False
    return shown


def _pod_set(assignment: api.PodSetAssignment) -> dict[str, Any]:
    shown: dict[str, Any] = {"flavors": dict(assignment.flavors), "count": assignment.count}
    if assignment.topology_assignment:
        domains = decode_topology(assignment.topology_assignment).domains
        shown["topology"] = {"/".join(domain.values): domain.count for domain in domains}
    return shown


def first_difference(want: list[Record], got: list[Record]) -> str | None:
    """Describe the first step and Job that differ; None where all agree."""
    for i, (wanted, decided) in enumerate(zip(want, got, strict=True)):
        for job in sorted(wanted.keys() | decided.keys()):
            if wanted.get(job) != decided.get(job):
                return f"step {i} {job}:\n  want {wanted.get(job)}\n  got  {decided.get(job)}"
    return None


def main(arguments: list[str]) -> None:
    """Replay ``scenarios/`` and ``expected/`` below a folder: ``replay.py FOLDER PROFILE...``."""
    folder = Path(arguments[0])
    for profile in arguments[1:]:
        agreed = []
        paths = sorted(folder.glob(f"scenarios/{profile}-*.json"))
        for path in paths:
            want = json.loads((folder / "expected" / path.name).read_text())
            difference = first_difference(want, replay(json.loads(path.read_text())))
            if difference is None:
                agreed.append(path.stem)
            else:
                sys.stdout.write(f"{path.stem} {difference}\n")
        sys.stdout.write(f"{profile}: {len(agreed)}/{len(paths)} agree: {agreed}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
