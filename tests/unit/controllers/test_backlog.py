"""Who is written first, and who can still be removed."""

from __future__ import annotations

import asyncio

from multiqueue.controllers.backlog import Backlog


async def take(backlog: Backlog[str], count: int) -> list[str]:
    return [await backlog.get() for _ in range(count)]


async def test_the_highest_priority_comes_first_then_who_came_first() -> None:
    backlog: Backlog[str] = Backlog()
    for key, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5), ("e", -1)):
        backlog.put(key, key.upper(), priority=priority)
    assert await take(backlog, 5) == ["B", "D", "A", "C", "E"]


async def test_what_was_removed_does_not_come() -> None:
    backlog: Backlog[str] = Backlog()
    backlog.put("a", "A", priority=0)
    backlog.put("b", "B", priority=0)
    assert backlog.remove("a")
    assert not backlog.remove("a")
    assert await take(backlog, 1) == ["B"]
    assert not backlog.remove("b"), "somebody has it"


async def test_a_newer_item_takes_the_place_of_the_older_one() -> None:
    backlog: Backlog[str] = Backlog()
    backlog.put("a", "old", priority=9)
    backlog.put("b", "B", priority=5)
    backlog.put("a", "new", priority=0)
    assert await take(backlog, 2) == ["B", "new"]


async def test_who_waits_gets_what_comes() -> None:
    backlog: Backlog[str] = Backlog()
    waiting = asyncio.create_task(backlog.get())
    await asyncio.sleep(0)
    backlog.put("a", "A", priority=0)
    assert await asyncio.wait_for(waiting, 1) == "A"
