"""Puts the objects of a snapshot into an engine, as `controllers.cache_feed` does. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import orjson

from multiqueue.api import v1beta2 as api
from multiqueue.api.serde import decode
from multiqueue.api.v1alpha1 import DisruptionPolicy
from multiqueue.controllers.engine_setup import engine_options
from multiqueue.controllers.surroundings import SurroundingsCache
from multiqueue.engine.engine import Engine
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.machines.nodes import read_node
from multiqueue.model.build_workload import build_workload
from multiqueue.model.cluster_queue import (
    build_admission_check,
    build_cluster_queue,
    build_cohort,
    build_local_queue,
)
from multiqueue.model.disruption_policy import build_disruption_rules
from multiqueue.model.past_usage import build_consumed_resources
from multiqueue.model.resource_flavor import build_resource_flavor, build_topology
from multiqueue.model.workload import Workload
from multiqueue.whatif.fleet import SnapshotFleet
from multiqueue.whatif.snapshot import Snapshot, key_of_object

Json = dict[str, Any]
AT_ONCE = timedelta(0)
"""Pause between a wake and its cycle: a replay has no bursts to collect."""


class SnapshotEngine:
    """An engine with everything of a snapshot but its Workloads, which `upsert` adds.

    Args:
        snapshot: The snapshot; not changed afterwards.
        workloads: Its Workloads by key.

    Attributes:
        engine: The engine.
        left_out: The objects that cannot be read, each in a sentence. The manager leaves them out,
            too.

    Raises:
        SnapshotError: this program cannot read the configuration.
    """

    def __init__(self, snapshot: Snapshot, workloads: Mapping[str, api.Workload]) -> None:
        config = snapshot.read_configuration()
        options = replace(engine_options(config), wake_batch=AT_ONCE, busy_wake_batch=AT_ONCE)
        self.engine = Engine(options)
        self.left_out: list[str] = []
        self._options = build_options(config)
        self._now = snapshot.taken_at
        self._surroundings = SurroundingsCache()
        self._put_queues(snapshot)
        self._put_surroundings(snapshot)
        self.engine.ask_fleet(SnapshotFleet(snapshot, workloads).ask)

    def build(self, obj: api.Workload) -> Workload:
        """Return a Workload as the engine sees it."""
        return build_workload(obj, self._options, self._surroundings.of(obj.metadata.namespace))

    def upsert(self, obj: api.Workload) -> Workload:
        """Add or change a Workload; return it as the engine sees it."""
        built = self.build(obj)
        self.engine.upsert_workload(built, self._now)
        return built

    def _put_queues(self, snapshot: Snapshot) -> None:
        engine = self.engine
        build_queue = partial(build_cluster_queue, concurrent=self._options.concurrent)
        steps: tuple[tuple[Any, Callable[[Any], Any], Callable[[Any], None]], ...] = (
            (api.ResourceFlavor, build_resource_flavor, engine.upsert_resource_flavor),
            (api.Topology, build_topology, engine.upsert_topology),
            (api.AdmissionCheck, build_admission_check, engine.upsert_admission_check),
            (DisruptionPolicy, build_disruption_rules, engine.upsert_disruption_policy),
            (api.Cohort, build_cohort, engine.upsert_cohort),
            (api.ClusterQueue, build_queue, engine.upsert_cluster_queue),
            (api.LocalQueue, lambda obj: obj, self._put_local_queue),
        )
        for type_, build, put in steps:
            for _, obj in sorted(snapshot.of(type_.__name__).items()):
                self._try_put(obj, partial(_put_typed, type_, build, put))

    def _try_put(self, obj: Json, put: Callable[[Json], None]) -> None:
        try:
            put(obj)
        except (ValueError, KeyError, TypeError) as error:
            name = key_of_object(obj)
            self.left_out.append(f'{obj["kind"]} "{name}" is left out: it cannot be read ({error})')

    def _put_local_queue(self, obj: api.LocalQueue) -> None:
        self.engine.upsert_local_queue(build_local_queue(obj))
        if self.engine.usage is not None:
            consumed = build_consumed_resources(obj)
            self.engine.usage.seed(obj.metadata.key, consumed, self._now)

    def _put_surroundings(self, snapshot: Snapshot) -> None:
        for name, namespace in sorted(snapshot.of("Namespace").items()):
            self.engine.upsert_namespace(name, namespace["metadata"].get("labels") or {})
        for limits in snapshot.of("LimitRange").values():
            self._try_put(limits, self._put_limit_range)
        for name, runtime_class in snapshot.of("RuntimeClass").items():
            self._surroundings.set_runtime_class(name, runtime_class)
        for _, node in sorted(snapshot.of("Node").items()):
            self._try_put(node, self._put_node)

    def _put_limit_range(self, obj: Json) -> None:
        metadata = obj["metadata"]
        self._surroundings.set_limit_range(metadata["namespace"], metadata["name"], obj)

    def _put_node(self, obj: Json) -> None:
        self.engine.upsert_node(read_node(orjson.dumps(obj)).node)


def _put_typed(
    type_: Any, build: Callable[[Any], Any], put: Callable[[Any], None], obj: Json
) -> None:
    put(build(decode(type_, obj)))
