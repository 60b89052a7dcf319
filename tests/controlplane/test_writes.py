"""What an admission writes at most: a short form of `make bench-upstream`, with our manager only.

The kube-apiserver counts the writes.
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
    "workloads/status": 1.9,
    "events": 2.5,
    "clusterqueues/status": 0.6,
    "localqueues/status": 0.6,
}
"""Writes of the manager for one admission, by kind; statuses of Workloads without evictions.

The quicker the server answers, the more reasons, Events and queue statuses it gets: measured on
the same machine were 1.1, 1.3, 0.1 and 0.1 while other programs kept the server slow, and 1.3, 1.7,
0.16 and 0.18 while it was quick; a quicker machine had 0.25 and 0.25 of the last two. If each
change of a queue were a write, the last two would be about 2. `test_slow_server` has the strict
bounds, for servers of a known speed.
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
