"""A dispatcher of somebody else: nominates clusters on the manager's API server, as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random

from tests.fleet.api_server import ApiServer
from tests.fleet.checkers.words import waits

ACTOR = "dispatcher"
SECONDS = 5.0
"""The longest time between two looks."""
WHIM = 0.1
"""How likely it is to think again about a Workload at a look."""


class Outside:
    """Nominates whatever it comes upon.

    Args:
        hub: The manager's API server.
        clusters: Names of those that may be nominated, at any time.
        chance: Draws all that it does.
    """

    def __init__(self, hub: ApiServer, clusters: Collection[str], chance: Random) -> None:
        self._hub = hub
        self._clusters = clusters
        self._chance = chance

    async def run(self) -> None:
        """Nominate until cancelled."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.1, SECONDS))
            for workload in filter(waits, self._hub.list_all("workloads")):
                known = workload["status"].get("nominatedClusterNames")
                if known and self._chance.random() > WHIM:
                    continue
                clusters = sorted(self._clusters)
                chosen = self._chance.sample(clusters, self._chance.randint(1, len(clusters)))
                metadata = workload["metadata"]
                key = f"{metadata['namespace']}/{metadata['name']}"
                status = {"status": {"nominatedClusterNames": chosen}}
                self._hub.edit("workloads", key, status, subresource="status", actor=ACTOR)
