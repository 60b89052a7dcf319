"""The guard of a worker on a real control plane."""

from __future__ import annotations

import asyncio

import pytest

from multiqueue.kube.client import KubeClient
from multiqueue.kube.credentials import Credentials
from tests.controlplane.conftest import StartControlPlane
from tests.controlplane.test_webhooks import define
from tests.guard_world import (
    assert_an_outage_of_the_guard_stops_nothing,
    assert_old_copies_are_refused,
)


@pytest.mark.timeout(180)
async def test_old_copies_are_refused_and_an_outage_of_the_guard_stops_nothing(
    start_control_plane: StartControlPlane,
) -> None:
    plane = await asyncio.to_thread(start_control_plane, "guard", controllers=False)
    credentials = await Credentials.from_kubeconfig_file(plane.kubeconfig)
    async with KubeClient(credentials, user_agent="test") as client:
        await define(client)
        await assert_old_copies_are_refused(client, client)
        await assert_an_outage_of_the_guard_stops_nothing(client)
