"""Upstream's scheduler benchmark over the API (issue 3, Speed): what an admission costs.

API server, manager and runner are a process each, on whatever cores there are. Ratios travel,
absolute figures do not: what counts is what the manager writes, and the makespan next to the fluid
bound. Small workloads run for 200 ms, so that full usage would take 3,000 admissions a second: what
is missing there is CPU, and the virtual clock shows what the decisions cost. Upstream, measured
with kube-apiserver on a machine of two cores: 2.35 status writes and 2.4 Events per Workload, and a
makespan of 4.3 times the bound.
"""

from __future__ import annotations

import resource
import statistics
import sys
from collections import Counter
from pathlib import Path

import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.limiter import RateLimiter
from multiqueue.model.cluster_queue import Preemption, PreemptionPolicy
from tests.bench.upstream_generators import BASELINE, fluid_makespan, fluid_waits, scaled
from tests.bench.upstream_runner import Runner
from tests.processes import running, wait_for_text

pytestmark = [pytest.mark.bench, pytest.mark.timeout(400)]

SHARE = 5
"""A fifth of the Workloads of each class: a run takes about a minute on two cores, and waits still
grow to many times what a Workload runs."""
SECONDS = 300.0
STATUS_WRITES, EVENTS = 1.2, 1.0
"""Per admission; an eviction costs a write more, and words cost an Event each."""
EVENTS_OF_AN_EVICTION = 3
"""That it has to leave, for whom, and that on the side of whom it leaves for."""
PREEMPTING = Preemption(
    within_cluster_queue=PreemptionPolicy.LOWER_PRIORITY,
    reclaim_within_cohort=PreemptionPolicy.ANY,
)
CONFIGURATION = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job]
featureGates:
  DisableWaitForPodsReady: true
clientConnection:
  qps: 5000
  burst: 5000
leaderElection:
  leaderElect: false
metrics:
  bindAddress: "0"
health:
  healthProbeBindAddress: "0"
webhook:
  port: 0
internalCertManagement:
  enable: false
"""


def table(name: str, run: Runner, events: Counter[str], spent: float) -> str:
    generator, fluid, count = run.generator, fluid_waits(run.generator), run.admissions
    heading = (
        f"\nbaseline / {SHARE} over the API, {name}: {generator.total:,} workloads, "
        f"{count:,} admissions, makespan {run.makespan:.1f} s "
        f"(fluid bound {fluid_makespan(generator):.1f} s), usage {run.usage:.1%}, "
        f"while work waits {run.usage_while_work_waits:.1%}"
    )
    waits = [
        f"  {each.name:8} first admission after {statistics.mean(run.waits[each.name]):6.2f} s "
        f"(fluid by priority {fluid[each.name]:6.2f} s)"
        for each in reversed(generator.sets)
    ]
    costs = (
        f"  per admission {run.manager_writes / count:.2f} status writes of the manager "
        f"and {events.total() / count:.2f} Events, {spent / count * 1e3:.1f} ms of its CPU"
    )
    parts = [f"  writes: {shares(run.writes, count)}", f"  Events: {shares(events, count)}"]
    return "\n".join([heading, *waits, costs, *parts]) + "\n"


def child_seconds() -> float:
    """CPU time of the processes that have ended: the manager ends before the API server."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def shares(counts: Counter[str], of: int) -> str:
    return ", ".join(f"{name} {count / of:.2f}" for name, count in sorted(counts.items()))


@pytest.mark.parametrize(
    ("name", "preemption"),
    [("preempting", PREEMPTING), ("nobody preempts", Preemption())],
    ids=["preempting", "not preempting"],
)
async def test_what_an_admission_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, preemption: Preemption
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIGURATION)
    server_log, manager_log = tmp_path / "apiserver.log", tmp_path / "manager.log"
    with running("apiserver", "--log-level", "error", log=server_log) as server:
        kubeconfig = wait_for_text(server, server_log, r"KUBECONFIG=(\S+)").group(1)
        options = ("--config", str(config), "--kubeconfig", kubeconfig, "--no-webhooks")
        spent = child_seconds()
        with running("run", *options, "--log-level", "warning", log=manager_log):
            credentials = await Credentials.from_kubeconfig_file(kubeconfig)
            limiter = RateLimiter(rate=5000)
            async with KubeClient(credentials, limiter=limiter) as client:
                run = Runner(client, scaled(BASELINE, SHARE), preemption)
                await run.run(SECONDS)
                events = await run.events()
        spent = child_seconds() - spent
    with capsys.disabled():
        sys.stdout.write(table(name, run, events, spent))
    admissions, evictions = run.admissions, run.writes["evicted"]
    assert run.manager_writes - evictions <= STATUS_WRITES * admissions
    assert events["Admitted"] <= EVENTS * admissions
    words = run.writes["explained"]
    assert events.total() <= EVENTS * admissions + EVENTS_OF_AN_EVICTION * evictions + words
