"""A connection whose kubeconfig turns out to be unusable only when it is used."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from datetime import UTC, datetime

import structlog

from multiqueue.api.conditions import ClusterReason
from multiqueue.embedded.server.certificates import create_authority
from multiqueue.kube.clock import SystemClock
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.attempt import SessionMaker
from multiqueue.workers.connections.connection import WorkerConnection
from multiqueue.workers.connections.connection_state import ConnectionState
from multiqueue.workers.connections.worker_health import WorkerHealth
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from multiqueue.workers.owner import ManagerIdentity

AUTHORITY = create_authority(datetime(2026, 1, 1, tzinfo=UTC))


def without_key() -> SafeKubeconfig:
    """A client certificate that lacks its key: no entry by itself is wrong."""
    certificate = base64.b64encode(AUTHORITY.certificate).decode()
    return SafeKubeconfig(
        config={
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {"client-certificate-data": certificate}}],
        }
    )


class Repeating:
    """Brings the kubeconfig again at every change, as the reconciler does."""

    def __init__(self) -> None:
        self.states: list[ConnectionState] = []
        self.log_keys: list[dict[str, object]] = []

    async def identify(self, connection, identity):
        raise AssertionError("nothing can be connected")

    def attach(self, connection, session):
        raise AssertionError("nothing can be connected")

    def rotated(self, connection, keys):
        raise AssertionError("nothing can be connected")

    def state_changed(self, connection):
        self.states.append(connection.state)
        self.log_keys.append(structlog.contextvars.get_contextvars())
        connection.configure(without_key())


async def test_a_kubeconfig_that_cannot_be_used_is_tried_once_however_often_it_is_brought():
    listener = Repeating()
    health = WorkerHealth("w", lambda: None)
    connection = WorkerConnection(
        "w",
        adapters=(),
        maker=SessionMaker(
            "w",
            adapters=(),
            owner=ManagerIdentity(origin="o"),
            metrics=ManagerMetrics(),
            health=health,
            clock=SystemClock(),
        ),
        health=health,
        clock=SystemClock(),
        listener=listener,
    )
    connection.configure(without_key())
    task = asyncio.create_task(connection.run())
    for _ in range(200):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert listener.states == [ConnectionState.REFUSED]
    assert listener.log_keys == [{"worker": "w"}]  # on whatever is logged, by whomever
    status = connection.status
    assert (status.active, status.reason) == (False, ClusterReason.BAD_KUBE_CONFIG)
    assert "not usable PEM" in status.message
