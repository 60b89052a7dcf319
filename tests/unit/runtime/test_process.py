"""Signals of a running process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from multiqueue.observability.logging import THRESHOLD
from multiqueue.runtime.process import DEBUG_SECONDS, DebugForAWhile, run_process
from tests.virtual_time import virtual_time


def test_a_signal_logs_everything_until_the_next() -> None:
    levels = []

    async def main() -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(0.05)
            levels.append(THRESHOLD.level)

    run_process(main)
    assert levels == [logging.DEBUG, logging.INFO, logging.DEBUG]
    assert THRESHOLD.level == logging.INFO, "the end of the process ends it, too"


@pytest.mark.parametrize("before", ["INFO", "ERROR"])
def test_it_ends_by_itself(before: str) -> None:
    @virtual_time
    async def run() -> None:
        THRESHOLD.set(before)
        DebugForAWhile().toggle()
        await asyncio.sleep(DEBUG_SECONDS - 1)
        assert THRESHOLD.level == logging.DEBUG
        await asyncio.sleep(2)
        assert logging.getLevelName(THRESHOLD.level) == before
        THRESHOLD.set("info")

    run()
