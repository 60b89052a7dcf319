"""What the engine is fed with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from multiqueue.api.v1beta2 import Workload
from multiqueue.controllers.cache_feed import CacheFeed
from multiqueue.engine.engine import Engine
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.cluster_queue import LocalQueue
from tests.builders.engine import make_queue
from tests.builders.workloads import NAMESPACE, make_workload, reserved, with_status
from tests.engine_world import EngineWorld


class FakeInformers:
    """Informers that have news when a test says so; ``objects`` are the known Workloads."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}
        self.objects: list[Workload] = []

    def __getattr__(self, name: str) -> Any:
        def add_handler(handler: Any) -> None:
            self.handlers[name] = handler

        return SimpleNamespace(
            add_handler=add_handler, store=SimpleNamespace(list=lambda: self.objects)
        )


def follow(
    engine: Engine,
    informers: FakeInformers | None = None,
    *,
    on_broken: Callable[[Exception], None] = lambda _: None,
) -> Any:
    """Return the handler that takes news of Workloads."""
    informers = informers or FakeInformers()
    context: Any = SimpleNamespace(
        clock=SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC)), informers=informers
    )
    CacheFeed(
        context,
        engine,
        options=BuildOptions(),
        on_change=lambda: None,
        on_broken=on_broken,
    ).attach()
    return informers.handlers["workloads"]


def with_unreadable_usage(workload: Workload) -> Workload:
    admission = workload.status.admission
    assert admission is not None
    assignments = tuple(
        msgspec.structs.replace(assignment, resource_usage={"cpu": "much"})
        for assignment in admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(admission, pod_set_assignments=assignments)
    return with_status(workload, msgspec.structs.replace(workload.status, admission=admission))


def test_a_holder_whose_usage_cannot_be_read_is_charged_by_its_spec_and_told_once() -> None:
    engine = EngineWorld(make_queue()).engine
    engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="cq"))
    on_workload = follow(engine)
    broken = with_unreadable_usage(reserved(make_workload()))
    with capture_logs() as logs:
        on_workload(None, broken)
        on_workload(broken, broken)

    state = engine.cluster_queue_state("cq")
    assert state is not None
    assert (state.reserving, state.reservation["default"]["cpu"].total) == (1, 1000)
    assert [entry["workload"] for entry in logs] == [broken.metadata.key]

    on_workload(broken, None)
    state = engine.cluster_queue_state("cq")
    assert state is not None
    assert state.reserving == 0
    with capture_logs() as logs:
        on_workload(None, broken)
    assert len(logs) == 1, "another one of that name is news"


def test_a_limit_range_changes_what_waiting_workloads_ask_for() -> None:
    engine = EngineWorld(make_queue()).engine
    engine.upsert_local_queue(LocalQueue(key=f"{NAMESPACE}/lq", cluster_queue="cq"))
    engine.upsert_namespace(NAMESPACE, {})
    informers = FakeInformers()
    on_workload = follow(engine, informers)
    workload = make_workload()
    on_workload(None, workload)
    informers.objects = [workload]
    bound = {"type": "Container", "max": {"cpu": "1m"}}
    limit_range = {
        "metadata": {"namespace": NAMESPACE, "name": "small"},
        "spec": {"limits": [bound]},
    }

    informers.handlers["limit_ranges"](None, limit_range)
    reason = engine.workload_reason(workload.metadata.key)
    assert reason is not None
    assert "more than the maximum 1m" in reason.message

    informers.handlers["limit_ranges"](limit_range, None)
    reason = engine.workload_reason(workload.metadata.key)
    assert reason is not None
    assert "maximum" not in reason.message


class FragileEngine(Engine):
    """An engine that raises halfway for the first Workloads."""

    def __init__(self, *, fails: int, undo_fails: bool = False) -> None:
        super().__init__()
        self._fails = fails
        self._undo_fails = undo_fails

    def upsert_workload(self, workload: Any, now: datetime) -> None:
        super().upsert_workload(workload, now)
        if self._fails:
            self._fails -= 1
            raise ValueError("a bug")

    def delete_workload(self, key: str, now: datetime) -> None:
        if self._undo_fails:
            raise RuntimeError("another bug")
        super().delete_workload(key, now)


def test_an_error_halfway_is_undone_and_the_object_put_in_again() -> None:
    engine, workload = FragileEngine(fails=1), make_workload()
    follow(engine)(None, workload)
    assert engine.find_workload(workload.metadata.key) is not None


def test_an_object_that_the_engine_never_takes_is_left_out() -> None:
    engine, broken, workload = FragileEngine(fails=2), list[Exception](), make_workload()
    with pytest.raises(ValueError, match="a bug"):
        follow(engine, on_broken=broken.append)(None, workload)
    assert (engine.find_workload(workload.metadata.key), broken) == (None, [])


def test_an_engine_that_cannot_undo_is_reported() -> None:
    engine, broken = FragileEngine(fails=1, undo_fails=True), list[Exception]()
    with pytest.raises(RuntimeError):
        follow(engine, on_broken=broken.append)(None, make_workload())
    assert [str(error) for error in broken] == ["another bug"]
