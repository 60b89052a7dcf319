"""How long a worker whose API server hangs delays the others' jobs (issue 5, Speed).

The real programs in the simulated fleet, in virtual time: what is measured are their waits, not how
busy this machine is. `test_next_to_upstream` measures the same on real control planes.
"""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.fleet.history import Change, History
from tests.fleet.plan import JobPlan, Plan
from tests.fleet.virtual_loop import run_virtually
from tests.fleet.weather import Down
from tests.fleet.world import HUB, FleetWorld

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

HUNG_SECONDS = 2.0
"""Submit to remote job while another worker hangs."""
WORKERS = ("w1", "w2", "w3")
AT_ONCE, LATER, PAUSE = 20, 100, 0.5
"""Jobs the moment that it begins to hang, and then one by one, so many seconds apart."""


def make_plan(dispatcher: str) -> Plan:
    return Plan(
        seed=0,
        workers=dict.fromkeys(WORKERS, 1000),
        played=frozenset(),
        hub_gpus=1000,
        lost_timeout=900.0,
        gc_interval=60.0,
        dispatcher=dispatcher,
        managers=1,
        page_size=500,
        skews={},
        jobs=(),
        acts=(),
    )


async def measure(dispatcher: str) -> list[float]:
    """Return the seconds from submission to the job on a worker."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    history = History(lambda: loop.time() - begun)
    world = FleetWorld(make_plan(dispatcher), history, begun)
    submitted: dict[str, float] = {}
    remote: dict[str, float] = {}

    def on_change(change: Change) -> None:
        if change.plural == "jobs" and change.verb == "create" and change.cluster != HUB:
            assert change.new is not None
            remote.setdefault(change.new["metadata"]["name"], change.at)

    history.listen(on_change)
    world.build()
    await asyncio.sleep(30)
    world.network.weather("manager-a", "w2").down = Down.HANGS
    for number in range(AT_ONCE + LATER):
        name = f"job{number}"
        submitted[name] = world.clock()
        world.submit(JobPlan(name=name, at=0, gpus=1, seconds=1e9, priority="low", fails=False))
        if number >= AT_ONCE:
            await asyncio.sleep(PAUSE)
    await asyncio.sleep(60)
    await world.close()
    assert remote.keys() == submitted.keys()
    return sorted(remote[name] - at for name, at in submitted.items())


@pytest.mark.parametrize("dispatcher", ["all", "score"])
def test_a_hung_worker(dispatcher: str, capsys: pytest.CaptureFixture[str]) -> None:
    waits = run_virtually(measure(dispatcher))
    with capsys.disabled():
        sys.stdout.write(
            f"\none of {len(WORKERS)} workers hangs, dispatcher {dispatcher}: submit to remote job "
            f"median {waits[len(waits) // 2]:.2f} s, most {waits[-1]:.2f} s of {len(waits)} "
            f"(goal {HUNG_SECONDS} s)\n"
        )
    assert waits[-1] <= HUNG_SECONDS
