"""What a dispatched job costs in looks and requests, in all programs together (issue 5, Speed).

The real programs in the simulated fleet, in virtual time: counts depend on no machine. A look is
one observation and one decision; each costs about as much as a request.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from multiqueue.controllers.workload import controller
from multiqueue.dispatch import workload_reconciler
from multiqueue.jobs.framework import reconciler
from multiqueue.kube.transport import ApiRequest, Response
from tests.bench.test_hung_worker_bench import make_plan
from tests.fleet.history import History
from tests.fleet.network import SimTransport
from tests.fleet.plan import JobPlan
from tests.fleet.virtual_loop import run_virtually
from tests.fleet.world import FleetWorld

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

BURST = 100
LOOKS = {
    "looks at jobs": (reconciler, 12),
    "looks at Workloads": (controller, 11),
    "looks of the dispatch": (workload_reconciler, 9),
}
"""Modules whose ``decide`` is one look, and how many a job may take."""


async def run(counts: Counter[str]) -> None:
    """Count from the submission of a burst until all of it runs."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    world = FleetWorld(make_plan("score"), History(lambda: loop.time() - begun), begun)
    world.build()
    await asyncio.sleep(30)
    counts.clear()
    for number in range(BURST):
        job = JobPlan(f"job{number}", at=0, gpus=1, seconds=1e9, priority="low", fails=False)
        world.submit(job)
    await asyncio.sleep(8)
    counted = Counter(counts)
    await world.close()
    counts.clear()
    counts.update(counted)


def test_the_looks_and_requests_of_a_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: Counter[str] = Counter()

    def counted(name: str, decide: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any) -> Any:
            counts[name] += 1
            return decide(*args)

        return count

    async def send(transport: SimTransport, request: ApiRequest) -> Response:
        path = request.target.partition("?")[0]
        of = re.search(r"/(events|jobs|workloads)(?:/[^/]+)?(/status)?$", path)
        counts[f"{request.method} {of[1]}{of[2] or ''}" if of else "other requests"] += 1
        return await real_send(transport, request)

    real_send = SimTransport.send
    monkeypatch.setattr(SimTransport, "send", send)
    for name, (module, _) in LOOKS.items():
        monkeypatch.setattr(module, "decide", counted(name, module.decide))
    run_virtually(run(counts))

    told = ", ".join(f"{count / BURST:.1f} {name}" for name, count in sorted(counts.items()))
    with capsys.disabled():
        sys.stdout.write(f"\na job of a burst of {BURST}: {told}\n")
    for name, (_, most) in LOOKS.items():
        assert counts[name] <= most * BURST, name
