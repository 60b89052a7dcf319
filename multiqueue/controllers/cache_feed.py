"""Feeds the engine from the informers; only the scheduler's assume and confirm also write to it.

Handlers are synchronous and do one upsert each. An event that is older than an assumed admission
does not undo it: the engine waits for the outcome of the write.

An object whose values make the engine raise is isolated. It is built before the engine is touched.
If the engine raises halfway, the object is removed and added again, so that nothing is half
written. If it still raises, the object is left out, and the informer logs and counts it; all other
objects are processed. Only if the engine cannot even remove it, its state is lost (`on_broken`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.workload_state import has_quota
from multiqueue.controllers.device_watch import DeviceWatch
from multiqueue.controllers.surroundings import (
    SurroundingsCache,
    claims_by_template,
    requests_any,
    uses_runtime_class,
)
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.informer import Informer
from multiqueue.model.build_workload import BuildOptions, build_workload
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

K = TypeVar("K")
T = TypeVar("T")
Json = dict[str, Any]

log = structlog.get_logger("multiqueue.scheduler")


class CacheFeed:
    """Connects informers and engine.

    Args:
        context: The manager's context, with the informers to follow.
        engine: The engine to feed.
        options: How objects are read.
        on_change: Called after each change of the engine.
        on_broken: Called if the engine raises while an object is removed from it.
        devices: The watch of DeviceClasses and claim templates; None if devices do not count.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        *,
        options: BuildOptions,
        on_change: Callable[[], None],
        on_broken: Callable[[Exception], None],
        devices: DeviceWatch | None = None,
    ) -> None:
        self._devices = devices
        self._on_broken = on_broken
        self._clock = context.clock
        self._informers = context.informers
        self._engine = engine
        self._options = options
        self._on_change = on_change
        self._surroundings = SurroundingsCache(with_devices=devices is not None)
        self._unread: dict[str, tuple[str, ...]] = {}

    def attach(self) -> None:
        """Start to follow the informers."""
        informers, engine = self._informers, self._engine
        self._follow(
            informers.resource_flavors,
            build_resource_flavor,
            engine.upsert_resource_flavor,
            engine.delete_resource_flavor,
        )
        self._follow(
            informers.topologies, build_topology, engine.upsert_topology, engine.delete_topology
        )
        self._follow(
            informers.admission_checks,
            build_admission_check,
            engine.upsert_admission_check,
            engine.delete_admission_check,
        )
        self._follow(informers.cohorts, build_cohort, engine.upsert_cohort, engine.delete_cohort)
        self._follow(
            informers.cluster_queues,
            partial(build_cluster_queue, concurrent=self._options.concurrent),
            engine.upsert_cluster_queue,
            engine.delete_cluster_queue,
        )
        self._follow(
            informers.disruption_policies,
            build_disruption_rules,
            engine.upsert_disruption_policy,
            engine.delete_disruption_policy,
        )
        self._follow(
            informers.local_queues,
            lambda obj: obj,
            self._upsert_local_queue,
            engine.delete_local_queue,
        )
        self._follow(
            informers.namespaces,
            lambda obj: (_name(obj), obj["metadata"].get("labels") or {}),
            lambda built: engine.upsert_namespace(*built),
            engine.delete_namespace,
            key_of=_name,
        )
        informers.limit_ranges.add_handler(self._on_limit_range)
        informers.runtime_classes.add_handler(self._on_runtime_class)
        if self._devices is not None:
            self._devices.classes.add_handler(self._on_device_class)
            self._devices.templates.add_handler(self._on_claim_template)
        informers.workloads.add_handler(self._on_workload)

    def _upsert_local_queue(self, obj: api.LocalQueue) -> None:
        self._engine.upsert_local_queue(build_local_queue(obj))
        if self._engine.usage is not None:
            consumed = build_consumed_resources(obj)
            self._engine.usage.seed(obj.metadata.key, consumed, self._clock.now())

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        if new is not None:
            self._upsert_workload(new)
        elif old is not None:
            self._unread.pop(old.metadata.key, None)
            self._take_out(lambda: self._delete_workload(old))
        self._on_change()

    def _delete_workload(self, obj: api.Workload) -> None:
        self._engine.delete_workload(obj.metadata.key, self._clock.now())

    def _upsert_workload(self, obj: api.Workload) -> None:
        surroundings = self._surroundings.of(obj.metadata.namespace)
        workload = build_workload(obj, self._options, surroundings)
        self._tell_problems(workload)
        self._put_in(
            lambda: self._engine.upsert_workload(workload, self._clock.now()),
            lambda: self._delete_workload(obj),
        )

    def _on_limit_range(self, old: Json | None, new: Json | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        namespace = changed["metadata"]["namespace"]
        self._surroundings.set_limit_range(namespace, _name(changed), new)
        self._read_again(lambda workload: workload.metadata.namespace == namespace)

    def _on_runtime_class(self, old: Json | None, new: Json | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        self._surroundings.set_runtime_class(_name(changed), new)
        self._read_again(lambda workload: uses_runtime_class(workload, _name(changed)))

    def _on_device_class(self, old: Json | None, new: Json | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        resources = self._surroundings.set_device_class(_name(changed), new)
        if resources:
            self._read_again(lambda workload: requests_any(workload, resources))

    def _on_claim_template(self, old: Json | None, new: Json | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        namespace, name = changed["metadata"]["namespace"], _name(changed)
        self._surroundings.set_claim_template(namespace, name, new)
        self._read_again(
            lambda workload: (
                workload.metadata.namespace == namespace and claims_by_template(workload, name)
            )
        )

    def _read_again(self, concerned: Callable[[api.Workload], bool]) -> None:
        """Build waiting Workloads again, because the requests of their pods may have changed."""
        for obj in self._informers.workloads.store.list():
            if has_quota(obj.status) or not concerned(obj):
                continue
            try:
                self._upsert_workload(obj)
            except Exception:  # one Workload must not stop the others
                log.exception("workload not read again", workload=obj.metadata.key)
        self._on_change()

    def _tell_problems(self, workload: Workload) -> None:
        """Log unreadable fields of a Workload with quota; waiting ones show them in the status."""
        known = self._unread.pop(workload.key, ())
        if workload.reservation is None or not workload.problems:
            return
        self._unread[workload.key] = workload.problems
        if known != workload.problems:
            log.warning(
                "workload charged by its spec where its status cannot be read",
                workload=workload.key,
                problems=workload.problems,
            )

    def _follow(
        self,
        informer: Informer[K],
        build: Callable[[K], T],
        upsert: Callable[[T], None],
        delete: Callable[[str], None],
        *,
        key_of: Callable[[Any], str] = lambda obj: str(obj.metadata.key),
    ) -> None:
        def handle(old: K | None, new: K | None) -> None:
            if new is not None:
                built, key = build(new), key_of(new)
                self._put_in(lambda: upsert(built), lambda: delete(key))
            elif old is not None:
                self._take_out(lambda: delete(key_of(old)))
            self._on_change()

        informer.add_handler(handle)

    def _put_in(self, put_in: Callable[[], None], take_out: Callable[[], None]) -> None:
        """Change the engine for one object, so that an error leaves nothing half written."""
        try:
            put_in()
        except Exception:
            log.exception("object taken out of the engine and put in again")
        else:
            return
        self._take_out(take_out)
        try:
            put_in()
        except Exception:
            self._take_out(take_out)
            raise

    def _take_out(self, take_out: Callable[[], None]) -> None:
        try:
            take_out()
        except Exception as error:
            self._on_broken(error)
            raise


def _name(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["name"])
