"""Real control planes for the tests of this folder; skipped with a hint where none can be had."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.plane import RealControlPlane

HERE = Path(__file__).parent
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
LEFT_OPEN = "pytest.PytestUnraisableExceptionWarning"
StartControlPlane = Callable[..., RealControlPlane]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder; connections that a real server drops amid a handshake are
    collected without a farewell, in whatever test runs then.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.controlplane)
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{LEFT_OPEN}"))


def require(*names: str) -> None:
    """Skip the test where a program is missing; on CI that is a failure."""
    skip_without([name for name in names if binaries.find(name) is None])


def skip_without(missing: Sequence[str]) -> None:
    """Skip the test if programs are missing; on CI that is a failure."""
    if missing and os.environ.get("CI"):
        pytest.fail(f"on CI {', '.join(missing)} must be there: {binaries.HOW_TO_GET_THEM}")
    if missing:
        pytest.skip(f"no {', '.join(missing)} here: {binaries.HOW_TO_GET_THEM}")


@pytest.fixture(scope="session")
def shared_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealControlPlane]:
    """One control plane for all tests that leave nothing behind which others would see."""
    require(*NEEDED)
    with RealControlPlane(tmp_path_factory.mktemp("shared")) as plane:
        yield plane


@pytest.fixture
def start_control_plane(tmp_path: Path) -> Iterator[StartControlPlane]:
    """Start as many control planes of the test's own as it wants: ``start("worker-1")``."""
    require(*NEEDED)
    with ExitStack() as stack:

        def start(
            name: str, *, controllers: bool = True, extra_arguments: Sequence[str] = ()
        ) -> RealControlPlane:
            return stack.enter_context(
                RealControlPlane(
                    tmp_path / name, controllers=controllers, extra_arguments=extra_arguments
                )
            )

        yield start
