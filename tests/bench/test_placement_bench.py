"""How evenly equal workers share a burst, whoever dispatches it (issue 5, Speed).

The real programs in the simulated fleet, in virtual time: no worker is slowed down by what else
this machine does. `test_next_to_upstream` looks at the same on real control planes.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import pytest

from tests.bench.test_hung_worker_bench import make_plan
from tests.fleet.history import Change, History
from tests.fleet.plan import JobPlan
from tests.fleet.virtual_loop import run_virtually
from tests.fleet.world import HUB, FleetWorld

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

IMBALANCE = 0.1
"""How far a worker's part may be from an even share."""
BURST = 300


async def place(dispatcher: str) -> Counter[str]:
    """Return where the jobs of a burst went."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    history = History(lambda: loop.time() - begun)
    world = FleetWorld(make_plan(dispatcher), history, begun)
    placed: Counter[str] = Counter()

    def on_change(change: Change) -> None:
        if change.plural == "jobs" and change.verb == "create" and change.cluster != HUB:
            placed[change.cluster] += 1

    history.listen(on_change)
    world.build()
    await asyncio.sleep(30)
    for number in range(BURST):
        job = JobPlan(f"job{number}", at=0, gpus=1, seconds=1e9, priority="low", fails=False)
        world.submit(job)
    await asyncio.sleep(60)
    await world.close()
    return placed


@pytest.mark.parametrize("dispatcher", ["all", "score"])
def test_a_burst_is_shared_evenly(dispatcher: str, capsys: pytest.CaptureFixture[str]) -> None:
    placed = run_virtually(place(dispatcher))
    shares = "/".join(str(count) for _, count in sorted(placed.items()))
    with capsys.disabled():
        sys.stdout.write(f"\n{BURST} jobs at once, dispatcher {dispatcher}: placed {shares}\n")
    even = BURST / len(placed)
    assert placed.total() == BURST
    assert max(abs(count - even) for count in placed.values()) <= IMBALANCE * even
