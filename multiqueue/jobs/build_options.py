"""Options for reading objects, from the Configuration; all controllers must use the same. Pure."""

from __future__ import annotations

from multiqueue.api.config import Configuration, Gate
from multiqueue.lib.quantity import parse_quantity
from multiqueue.model.build_workload import BuildOptions
from multiqueue.model.devices import DeviceRules
from multiqueue.model.queue_order import RequeuingTimestamp
from multiqueue.model.transformations import RequestRules, Transformation


def build_options(config: Configuration) -> BuildOptions:
    """Return the options for reading Workloads that the Configuration sets."""
    waiting = config.wait_for_pods_ready
    timestamp = waiting.requeuing_strategy.timestamp if waiting else RequeuingTimestamp.EVICTION
    return BuildOptions(
        requeuing_timestamp=RequeuingTimestamp(timestamp),
        priority_boost=config.gates.enabled(Gate.PRIORITY_BOOST),
        reclaimable_pods=config.gates.enabled(Gate.RECLAIMABLE_PODS),
        gated_by=config.gates.enabled(Gate.ADMISSION_GATED_BY),
        reclaimed_last=not config.gates.enabled(Gate.PRIORITY_SORTING_WITHIN_COHORT),
        concurrent=config.gates.enabled(Gate.CONCURRENT_ADMISSION),
        elastic=config.gates.enabled(Gate.ELASTIC_JOBS_VIA_WORKLOAD_SLICES),
        devices=device_rules(config),
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


def device_rules(config: Configuration) -> DeviceRules:
    """Return how devices of dynamic resource allocation count (E-175)."""
    enabled = config.gates.enabled
    return DeviceRules(
        counted=enabled(Gate.KUEUE_DRA_INTEGRATION),
        refused=enabled(Gate.KUEUE_DRA_REJECT_WORKLOADS_WHEN_DRA_DISABLED),
        extended=enabled(Gate.KUEUE_DRA_INTEGRATION_EXTENDED_RESOURCE),
        resources={
            device_class: mapping.name
            for mapping in config.resources.device_class_mappings
            for device_class in mapping.device_class_names
        },
    )
