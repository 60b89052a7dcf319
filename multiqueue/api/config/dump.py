"""Writes a configuration as a complete v1beta2 file, defaults included."""

from __future__ import annotations

from typing import Any

import msgspec

from multiqueue.api.config.gates import Gate
from multiqueue.api.config.types import V1BETA2, Configuration
from multiqueue.api.durations import Duration, format_duration
from multiqueue.api.serde import encode
from multiqueue.api.v1beta2.meta import LabelSelector


def dump_configuration(config: Configuration) -> dict[str, Any]:
    """Return the effective configuration in wire form; loading it gives an equal one."""
    body = {"apiVersion": V1BETA2, "kind": "Configuration", **to_wire(config)}
    body["managedJobsNamespaceSelector"] = config.jobs_namespace_selector
    waiting = config.wait_for_pods_ready
    if waiting is None:  # v1beta2 has no other way to turn it off
        gates = {**config.feature_gates, Gate.DISABLE_WAIT_FOR_PODS_READY.value: True}
        body["featureGates"] = gates
    else:
        timeout = format_duration(waiting.effective_recovery_timeout)
        body["waitForPodsReady"]["recoveryTimeout"] = timeout
    return body


def to_wire(value: Any) -> Any:
    """Return a part of a configuration in wire form, without fields that are not set."""
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, LabelSelector):
        return encode(value)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        pairs = ((f.encode_name, getattr(value, f.name)) for f in fields)
        return {name: to_wire(child) for name, child in pairs if child is not None}
    if isinstance(value, dict):
        return {key: to_wire(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    return value
