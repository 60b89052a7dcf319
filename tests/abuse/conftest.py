"""The fleet that all attacks share, and what must hold after each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.abuse.fleet import Fleet, Manager, connect, running_clusters

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder: they take processes and minutes. Sums are compared last."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.abuse)
    items.sort(key=lambda item: item.path == HERE / "test_quota_sums.py")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """The manager's program, beside running clusters."""
    with running_clusters(tmp_path_factory.mktemp("abuse")) as manager:
        manager.start()
        yield manager


@pytest.fixture
async def fleet(program: Manager) -> AsyncIterator[Fleet]:
    """The fleet; whatever a test does to it, others must not be harmed."""
    await program.until_ready()
    async with connect(program.log.parent, program) as fleet:
        await fleet.until_jobs_are_taken()
        position = program.log.stat().st_size
        restarts, pid = program.restarts, program.pid
        yield fleet
        if program.restarts == restarts:
            assert program.pid == pid
        await fleet.assert_unharmed()
        log = program.log.read_bytes()[position:].decode(errors="replace")
        assert "Traceback" not in log, log
