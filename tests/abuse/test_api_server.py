"""The manager's API server goes away, for a moment or for long, at any moment (row 13)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import yaml

from multiqueue.runtime.demo.world import OWN_KUBECONFIG
from tests.abuse.fleet import Fleet
from tests.tcp_gate import Gate, gate_to

CUTS = 16
STEP_SECONDS = 0.13
"""Between two cuts: over all of them, every stage in the life of a job is hit by some."""
OUTAGE_SECONDS = 3.0
"""Of a restart; less than the renewDeadline of 7 s, after which a leader must end."""


@contextlib.asynccontextmanager
async def gated(fleet: Fleet) -> AsyncIterator[Gate]:
    """Run the manager behind a gate to its API server."""
    own = fleet.folder / OWN_KUBECONFIG
    kubeconfig = yaml.safe_load(own.read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    path, command = fleet.folder / "gated.kubeconfig", fleet.program.command
    async with gate_to(cluster["server"]) as gate:
        cluster["server"] = gate.url
        path.write_text(yaml.safe_dump(kubeconfig))
        fleet.program.command = [str(path) if each == str(own) else each for each in command]
        assert fleet.program.command != command
        try:
            await fleet.restart()
            yield gate
        finally:
            gate.heal()
            fleet.program.command = command
            await fleet.restart()


async def test_a_connection_that_is_cut_at_every_moment_costs_nothing(fleet: Fleet) -> None:
    async with gated(fleet) as gate:
        pid = fleet.program.pid
        job = asyncio.create_task(fleet.run_job())
        for number in range(CUTS):
            await asyncio.sleep(STEP_SECONDS)
            gate.cut()
            gate.heal()
            if job.done() and number < CUTS - 1:
                await job
                job = asyncio.create_task(fleet.run_job())
        await job
        await fleet.assert_unharmed()
        assert (fleet.program.pid, await fleet.program.component_restarts()) == (pid, {})


async def test_an_api_server_that_restarts_is_found_again(fleet: Fleet) -> None:
    async with gated(fleet) as gate:
        pid = fleet.program.pid
        gate.cut()
        await asyncio.sleep(OUTAGE_SECONDS)
        gate.heal()
        await fleet.assert_unharmed()
        assert (fleet.program.pid, await fleet.program.component_restarts()) == (pid, {})


async def test_a_leader_that_is_cut_off_for_long_ends_and_the_next_one_goes_on(
    fleet: Fleet,
) -> None:
    async with gated(fleet) as gate:
        gate.cut()
        async with asyncio.timeout(30):
            while fleet.program.is_running:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        assert "could not be renewed within 7 s" in fleet.program.read_log().splitlines()[-1]
        gate.heal()
        await fleet.restart()
        await fleet.assert_unharmed()
