"""Every step of tests/e2e on bare control planes: `make e2e`.

With a worker of ours beside upstream Kueue, and with upstream Kueue on both workers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.audit import refused
from tests.controlplane.conftest import NEEDED, require
from tests.controlplane.fleet import Fleet, running_mixed_fleet, running_upstream_fleet
from tests.e2e.checks import wait_until_active
from tests.e2e.objects import set_up
from tests.e2e.steps import STEPS, Step

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(
    scope="module",
    params=[running_mixed_fleet, running_upstream_fleet],
    ids=["ours and upstream", "upstream twice"],
)
def fleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A manager's control plane and two workers; each step has a namespace of its own."""
    require(*NEEDED, "kube-scheduler", "kwok", "kueue")
    with request.param(tmp_path_factory.mktemp("fleet")) as started:
        with started.running():
            set_up(started)
            wait_until_active(started.manager)
        yield started
        for plane, user in started.callers():
            assert refused(plane, user) == []


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_step(fleet: Fleet, step: Step) -> None:
    step(fleet)
