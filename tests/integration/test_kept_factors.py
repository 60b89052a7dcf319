"""The factors of estimates after a restart of the manager, as its readers see them."""

from __future__ import annotations

from dataclasses import replace

import orjson

from multiqueue.forecast.kept_factors import KEY
from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from multiqueue.runtime.manager import Manager
from multiqueue.workers.connections.capability_book import write_entries
from tests.integration.test_fleet_api import FLEET, eventually, waiting
from tests.integration.test_runtime_manager import make_config, running


async def test_a_manager_goes_on_with_the_factors_of_the_one_before() -> None:
    async with waiting() as reader:
        config = make_config(leaderElection={"leaderElect": False})
        kept = {KEY: '{"whole-1h":2.5,"quota-10m":"nonsense"}'}
        await write_entries(reader.client, config.namespace, kept)
        manager = Manager(config, reader.asker.credentials)
        async with running(manager):
            await manager.until_at_work()
            visibility = manager.visibility
            assert visibility is not None

            async def listens() -> bool:
                return visibility.find_own_server() is not None

            await eventually(listens)
            own = visibility.find_own_server()
            assert own is not None
            authorization = reader.asker.credentials.material.authorization
            async with KubeClient(Credentials(replace(own, authorization=authorization))) as client:

                async def goes_on() -> bool:
                    answer = await client.request("GET", f"{FLEET}/calibrations")
                    rows = orjson.loads(answer.body)["items"]
                    factors = {row["metadata"]["name"]: row["status"]["factor"] for row in rows}
                    assert factors["quota-10m"] == 1
                    return bool(factors["whole-1h"] == 2.5)

                await eventually(goes_on)
