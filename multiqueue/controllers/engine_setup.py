"""The engine of a Configuration, and how objects are read for it. Pure."""

from __future__ import annotations

from multiqueue.api.config import Configuration, Gate
from multiqueue.engine.engine import Engine
from multiqueue.engine.options import EngineOptions
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.build import BuildOptions
from multiqueue.model.queue_order import RequeuingTimestamp
from multiqueue.model.transformations import RequestRules, Transformation

IGNORE_UNDECLARED = "IgnoreUndeclared"


def build_engine(config: Configuration) -> Engine:
    """Return an empty engine with the options of a Configuration."""
    return Engine(engine_options(config))


def engine_options(config: Configuration) -> EngineOptions:
    """Return what the Configuration says about decisions."""
    return EngineOptions(
        partial_admission=config.gates.enabled(Gate.PARTIAL_ADMISSION),
        ignore_undeclared=config.resources.quota_check_strategy == IGNORE_UNDECLARED,
    )


def build_options(config: Configuration) -> BuildOptions:
    """Return what the Configuration says about how Workloads are read."""
    waiting = config.wait_for_pods_ready
    timestamp = waiting.requeuing_strategy.timestamp if waiting else RequeuingTimestamp.EVICTION
    return BuildOptions(
        requeuing_timestamp=RequeuingTimestamp(timestamp),
        request_rules=RequestRules(
            exclude_prefixes=config.resources.exclude_resource_prefixes,
            transformations=tuple(
                Transformation(
                    input=rule.input,
                    outputs={name: parse_quantity(raw) for name, raw in rule.outputs.items()},
                    multiply_by=rule.multiply_by,
                    retain=rule.strategy != "Replace",
                )
                for rule in config.resources.transformations
            ),
        ),
    )
