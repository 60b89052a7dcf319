"""The Secret that replicas share."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.kube.certificate_source import SecretCertificates
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.errors import AlreadyExists, KubeError, NotFound
from multiqueue.kube.retries import RACE


class Contested:
    """Everybody else is always faster, and their Secret is gone when it is looked for."""

    def __init__(self) -> None:
        self.attempts = 0

    async def get(self, *_: Any, **__: Any) -> Any:
        raise NotFound(404)

    async def create(self, *_: Any, **__: Any) -> Any:
        self.attempts += 1
        raise AlreadyExists(409)


async def test_who_never_gets_to_write_may_try_later() -> None:
    client: Any = Contested()
    source = SecretCertificates(client, SystemClock(), namespace="n", name="s", hosts=["a"])
    with pytest.raises(KubeError):
        await source.load()
    assert client.attempts == RACE.attempts
