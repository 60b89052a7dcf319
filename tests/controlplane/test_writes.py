"""What an admission writes at most: a short form of `make bench-upstream`, with our manager only.

Counts of writes hardly depend on the machine, unlike seconds. The kube-apiserver counts them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.upstream import page, programs
from tests.bench.upstream.run import NO_LIMIT, OURS, Setting, measure
from tests.controlplane.conftest import NEEDED, require, skip_without

PART = 0.04
"""600 Workloads of the baseline: enough that jobs wait and preempt; a run takes half a minute."""
SECONDS = 150.0
AT_MOST = {
    "workloads/status": 1.6,
    "events": 1.9,
    "clusterqueues/status": 0.25,
    "localqueues/status": 0.25,
}
"""Writes of the manager for one admission, by kind; statuses of Workloads without evictions.

Measured: 1.1, 1.3, 0.1 and 0.11. With two more benchmarks on the same two cores: 1.5, 1.74, 0.19
and 0.21.
"""
RARE = 0.1
"""All other kinds together: what is written once for each queue or flavor."""


@pytest.mark.timeout(240)
def test_an_admission_takes_no_more_writes_than_the_table_says(tmp_path: Path) -> None:
    require(*NEEDED)
    skip_without(programs.missing())
    run = measure(Setting(OURS, "baseline", NO_LIMIT, PART), tmp_path / "run", SECONDS)
    written = {kind: page.writes_per_admission(run, kind) for kind in AT_MOST}
    others = page.writes_per_admission(run) - sum(written.values())
    written["workloads/status"] = page.status_writes_apart_from_evictions(run)
    assert {kind: each for kind, each in written.items() if each > AT_MOST[kind]} == {}, run
    assert others <= RARE, run
