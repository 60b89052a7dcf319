"""How many members of a job are written at the same time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from multiqueue.jobs.framework.execute_members import MAX_WRITING, MemberWriter
from multiqueue.jobs.framework.integration import MemberAction, MemberWrite
from multiqueue.jobs.framework.plan import WriteMembers
from tests.pod_objects import make_pod, pod_kind, stored
from tests.virtual_time import virtual_time


class SlowClient:
    """Answers each request after a second."""

    def __init__(self) -> None:
        self.in_flight = self.most = self.answered = 0

    async def patch(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(1.0)
        self.in_flight -= 1
        self.answered += 1
        return {}


@virtual_time
async def test_pods_are_written_together_but_only_so_many() -> None:
    client, count = SlowClient(), 3 * MAX_WRITING
    observer = SimpleNamespace(observe=lambda _: None)
    context = SimpleNamespace(client=client, informers=SimpleNamespace(jobs={"pod": observer}))
    pods = [stored(make_pod(f"p{number}", group="g", total=count)) for number in range(count)]
    writes = [MemberWrite(member=pod, steps=(MemberAction.RELEASE,)) for pod in pods]
    view = SimpleNamespace(integration=pod_kind())
    began = asyncio.get_running_loop().time()
    await MemberWriter(cast("Any", context)).write(WriteMembers(writes=writes), cast("Any", view))
    assert client.answered == count
    assert client.most == MAX_WRITING
    assert asyncio.get_running_loop().time() - began == 3.0
