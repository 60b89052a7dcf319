"""What benchmarks share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """Measure what the code costs, not when the collector runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
