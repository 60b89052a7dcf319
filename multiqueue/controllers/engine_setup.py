"""The engine of a Configuration. Pure."""

from __future__ import annotations

from multiqueue.api.config import Configuration, Gate
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions

IGNORE_UNDECLARED = "IgnoreUndeclared"


def build_engine(config: Configuration) -> Engine:
    """Return an empty engine with the options of a Configuration."""
    return Engine(engine_options(config))


def engine_options(config: Configuration) -> EngineOptions:
    """Return what the Configuration says about decisions."""
    waiting = config.wait_for_pods_ready
    return EngineOptions(
        partial_admission=config.gates.enabled(Gate.PARTIAL_ADMISSION),
        ignore_undeclared=config.resources.quota_check_strategy == IGNORE_UNDECLARED,
        block_admission=waiting is not None and waiting.block_admission,
    )
