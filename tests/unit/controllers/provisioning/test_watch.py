"""What keeps requests from being watched is told; what only has to be listed again is not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from multiqueue.controllers.provisioning.watch import RequestWatch
from multiqueue.kube.informer import Informer
from multiqueue.kube.informer_state import InformerState
from multiqueue.kube.resources import ADMISSION_CHECKS
from tests.unit.kube.scripted_server import ScriptedServer, pod_list, status, stream
from tests.virtual_time import virtual_time


@pytest.mark.parametrize(
    ("code", "told"),
    [(410, None), (403, "cannot watch provisioningrequestconfigs: ")],
    ids=["history is gone", "not allowed"],
)
@virtual_time
async def test_only_what_somebody_must_do_something_about_is_a_problem(
    code: int, told: str | None
) -> None:
    watches = [status(code), stream(then="hang")]
    async with (
        ScriptedServer(lists=[pod_list(5)], watches=watches) as server,
        server.client() as client,
    ):
        checks = Informer(client, ADMISSION_CHECKS)
        checks.settled.set()
        informers = SimpleNamespace(admission_checks=checks)
        watch = RequestWatch(SimpleNamespace(client=client, informers=informers))
        task = asyncio.create_task(watch.run())
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait({task})
    assert watch.configs.state is InformerState.WATCHING
    assert watch.problem is None if told is None else watch.problem.startswith(told)
