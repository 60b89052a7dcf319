"""Hooks that hang hold no other up; the rest is in tests/integration/test_preemption_hooks.py."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from multiqueue.api import names
from multiqueue.controllers.disruption import notice_hooks
from multiqueue.controllers.disruption.notice_hooks import TIMEOUT_SECONDS, NoticeHooks
from multiqueue.kube.errors import RequestTimeout
from tests.virtual_time import virtual_time

HANGING = 90


def make_noticed(name: str) -> Any:
    annotations = {names.CHECKPOINT_HOOK: f"{name}:80"}
    metadata = SimpleNamespace(key=f"team/{name}", namespace="team", annotations=annotations)
    admission = SimpleNamespace(cluster_queue="cq")
    status = SimpleNamespace(admission=admission, cluster_name=None)
    return SimpleNamespace(metadata=metadata, status=status)


@virtual_time
async def test_hooks_that_hang_hold_no_other_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    posted: dict[str, float] = {}
    handlers: list[Any] = []

    async def post(_: str, service: str, *__: Any, timeout: float) -> int:
        if service.startswith("hangs"):
            await asyncio.sleep(timeout)
            raise RequestTimeout(f"no answer within {timeout:g} s")
        posted[service] = loop.time()
        return 204

    workloads = [make_noticed(f"hangs-{n}") for n in range(HANGING)] + [make_noticed("good")]
    store = {each.metadata.key: each for each in workloads}
    settled = SimpleNamespace(settled=SimpleNamespace(wait=lambda: asyncio.sleep(0)))
    informers = SimpleNamespace(
        workloads=SimpleNamespace(
            store=store,
            settled=settled.settled,
            add_handler=handlers.append,
        ),
        disruption_policies=settled,
        cluster_queues=settled,
        cohorts=settled,
        find_disruption_policy=lambda _: SimpleNamespace(
            spec=SimpleNamespace(notice=SimpleNamespace(hooks=True))
        ),
    )
    context = SimpleNamespace(
        informers=informers,
        metrics=None,
        client=SimpleNamespace(post_to_service=post),
        recorder=SimpleNamespace(event=lambda *_: None),
    )
    monkeypatch.setattr(notice_hooks, "find_end", lambda _: "2026-11-22T10:05:00Z")
    monkeypatch.setattr(notice_hooks, "workload_reference", lambda _: {})
    hooks = NoticeHooks(cast("Any", context), cast("Any", None))
    for workload in workloads:
        handlers[0](None, workload)
    begun, task = loop.time(), asyncio.ensure_future(hooks.run())
    await asyncio.sleep(10)
    task.cancel()
    await asyncio.wait([task])
    assert posted["good:80"] - begun < TIMEOUT_SECONDS
