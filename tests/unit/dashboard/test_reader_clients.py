"""The clients of readers: none waits because the API server refuses another."""

from __future__ import annotations

import asyncio

from multiqueue.dashboard.reader_clients import MAX_READERS, ReaderClients
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import Credentials


async def test_a_reader_who_is_refused_waits_alone_and_with_all_tokens() -> None:
    async with ReaderClients(Credentials(Material(server="https://a"))) as clients:
        ada = clients.open("one", "ada").limiter
        await ada.acquire()
        ada.release(refused=True, retry_after=60.0)
        waits = asyncio.create_task(clients.open("two", "ada").limiter.acquire())
        async with asyncio.timeout(5):
            await clients.open("three", "bob").limiter.acquire()
        await asyncio.sleep(0)
        assert (waits.done(), ada.waiting) == (False, 1)
        waits.cancel()


async def test_the_budgets_of_the_last_readers_are_remembered() -> None:
    async with ReaderClients(Credentials(Material(server="https://a"))) as clients:
        ada, bob = (clients.open("t", name).limiter for name in ("ada", "bob"))
        for number in range(MAX_READERS - 2):
            clients.open("t", f"reader{number}")
        assert clients.open("t", "ada").limiter is ada
        clients.open("t", "another")
        assert clients.open("t", "ada").limiter is ada
        assert clients.open("t", "bob").limiter is not bob
