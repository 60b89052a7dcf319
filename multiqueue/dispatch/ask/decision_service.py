"""Answers questions about dispatch decisions: the latest ones, and dry runs.

A manifest is treated as if it were submitted now and got quota at once. If the manager's quota does
not admit it, the answer says so, and the dispatcher is asked nevertheless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from multiqueue.api import v1beta2 as api
from multiqueue.api.declarations import find_malformed
from multiqueue.api.names import key_of
from multiqueue.api.serde import decode
from multiqueue.api.workload_state import reserve_quota
from multiqueue.capacity.checks import is_multikueue
from multiqueue.dispatch.ask.collisions import find_collisions
from multiqueue.dispatch.ask.dispatcher_view import DispatchViews
from multiqueue.dispatch.ask.records import DecisionRecords
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observer
from multiqueue.dispatcher_host.answer import Answer
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.engine.engine import Engine
from multiqueue.engine.flavors.assignment import Assignment, Mode
from multiqueue.engine.nomination import Nominated
from multiqueue.jobs.build_options import build_options
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.compose import compose_workload, workload_class
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import InvalidJobError
from multiqueue.jobs.framework.observe import build_priority_classes
from multiqueue.jobs.framework.priority import PriorityClassNotFoundError, resolve_priority
from multiqueue.jobs.queue_lookup import InformerLookup
from multiqueue.model.build_workload import admission_to_wire, build_workload
from multiqueue.plugins import DispatchView
from multiqueue.plugins.recording import Decision
from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]
COLLISION_FOR = timedelta(minutes=1)
"""Longer than the dispatcher may take; the dry run keeps nothing afterwards."""
IMAGINED = "imagined"
"""Uid of objects that do not exist."""


class ReviewError(ValueError):
    """A manifest cannot be reviewed; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchReview:
    """The decision that a manifest would get.

    Attributes:
        decision: The dispatcher's decision.
        quota: What the manager's own quota allows, in words.
        fits: Whether the manager's quota admits it now.
        cluster_queue: The ClusterQueue whose quota it would use.
        notices: The parts of the manifest that would be ignored.
    """

    decision: Decision
    quota: str
    fits: bool
    cluster_queue: str
    notices: tuple[str, ...] = ()


class DecisionService:
    """Answers people's questions about dispatch decisions.

    Args:
        context: The manager's context.
        engine: Knows the manager's quota.
        observer: Builds the view of a Workload.
        views: Builds the views that dispatchers get.
        choice: The dispatchers.
        fleet: The workers.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        observer: Observer,
        views: DispatchViews,
        choice: DispatcherChoice,
        *,
        fleet: Fleet,
    ) -> None:
        self._fleet = fleet
        self._context = context
        self._engine = engine
        self._observer = observer
        self._views = views
        self._choice = choice
        self._options = build_options(context.config)
        self._lookup = InformerLookup(context.informers, context.integrations, context.config)
        self._records = DecisionRecords()
        choice.add_listener(
            lambda view, answer, profile: self._records.note(_decision(view, answer, profile))
        )
        context.informers.workloads.add_handler(self._on_workload)

    def find(self, key: str) -> Decision | None:
        """Return the latest decision about a Workload, ``namespace/name``."""
        return self._records.find(key)

    def list_decisions(self) -> Iterable[Decision]:
        """Return the latest decisions, the oldest first."""
        return self._records.all()

    def _on_workload(self, old: api.Workload | None, new: api.Workload | None) -> None:
        if old is not None and new is None:
            self._records.retire(old.metadata.key)

    async def review(self, manifest: Mapping[str, Any], namespace: str) -> DispatchReview:
        """Say where a job would go if it were submitted now; changes nothing.

        Raises:
            ReviewError: The manifest cannot be understood, or would not be dispatched.
        """
        job, workload = self._imagine(manifest, namespace)
        queue, check = self._find_way(workload)
        quota, fits, admission = self._try_quota(workload, queue)
        now = self._context.clock.now()
        status = reserve_quota(workload.status, admission, now=now)
        pending = decode(
            api.AdmissionCheckState, {"name": check, "state": "Pending", "message": ""}
        )
        status = msgspec.structs.replace(status, admission_checks=(pending,))
        workload = msgspec.structs.replace(workload, status=status)
        memory = GroupMemory()
        seen = self._observer.imagine(workload, job, memory)
        if collisions := await find_collisions(self._fleet, seen):
            for cluster, why in collisions.items():
                memory.refuse(cluster, why, now + COLLISION_FOR)
            seen = self._observer.imagine(workload, job, memory)
        shown, answer, profile = await self._choice.consult(
            seen.reference, lambda: self._views.build(seen, workload, memory)
        )
        return DispatchReview(
            decision=_decision(shown, answer, profile),
            quota=quota,
            fits=fits,
            cluster_queue=queue,
            notices=tuple(find_malformed(shown.workload.annotations)),
        )

    # ------------------------------------------------------------ the manifest

    def _imagine(self, manifest: Mapping[str, Any], namespace: str) -> tuple[Json, api.Workload]:
        """Return a job as it would be in the cluster, and its Workload."""
        gvk = GroupVersionKind.of(
            str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
        )
        integration = self._context.integrations.find_by_gvk(gvk)
        if integration is None:
            raise ReviewError(f"{gvk} is no kind of job that this manager queues")
        what = f"{gvk.kind} {namespace}"
        try:
            metadata = dict(manifest.get("metadata") or {})
            name = str(metadata.get("name") or f"{metadata.get('generateName', 'job-')}xxxxx")
            what = f"{what}/{name}"
            imagined = {**metadata, "name": name, "namespace": namespace, "uid": IMAGINED}
            job = self._complete({**manifest, "metadata": imagined}, gvk)
            priority = resolve_priority(
                workload_class(job),
                integration.priority_class(job),
                build_priority_classes(self._context),
            )
            body = compose_workload(job, gvk, integration.pod_sets(job), priority)
            workload = decode(api.Workload, body)
        except (InvalidJobError, PriorityClassNotFoundError) as error:
            raise ReviewError(f"{what}: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            words = f"{type(error).__name__}: {error}"
            raise ReviewError(f"{what}: is not what its kind looks like ({words})") from error
        created = msgspec.structs.replace(
            workload.metadata,
            uid=IMAGINED,
            creation_timestamp=self._context.clock.now().isoformat(),
        )
        return job, msgspec.structs.replace(workload, metadata=created)

    def _complete(self, job: Json, gvk: GroupVersionKind) -> Json:
        """Return a job with the defaults of its webhooks; raise if they would refuse it."""
        kind = self._context.integrations.find_kind(gvk)
        assert kind is not None, "the caller found its integration"
        config = self._context.config
        completed = kind.webhook.default(job, self._lookup, config).job
        if errors := kind.webhook.validate_create(completed, config):
            raise InvalidJobError("; ".join(map(str, errors)))
        return completed

    def _find_way(self, workload: api.Workload) -> tuple[str, str]:
        """Return the ClusterQueue, and its check that sends Workloads to workers."""
        informers = self._context.informers
        namespace, name = workload.metadata.namespace, workload.spec.queue_name
        if not name:
            raise ReviewError("the job names no queue: set the label kueue.x-k8s.io/queue-name")
        local = informers.local_queues.store.get(key_of(namespace, name))
        if local is None:
            raise ReviewError(f'LocalQueue "{namespace}/{name}" not found')
        queue = informers.cluster_queues.store.get(local.spec.cluster_queue)
        if queue is None:
            raise ReviewError(f'ClusterQueue "{local.spec.cluster_queue}" not found')
        strategy = queue.spec.admission_checks_strategy
        for rule in strategy.admission_checks if strategy is not None else ():
            check = informers.admission_checks.store.get(rule.name)
            if check is not None and is_multikueue(check):
                return queue.metadata.name, rule.name
        raise ReviewError(
            f'ClusterQueue "{queue.metadata.name}" has no MultiKueue check: its jobs run here'
        )

    def _try_quota(self, workload: api.Workload, queue: str) -> tuple[str, bool, api.Admission]:
        """Return what the manager's quota says, whether it fits, and what would be reserved."""
        built = build_workload(workload, self._options)
        trial = self._engine.try_workload(built, queue)
        if trial is None:
            words = f'ClusterQueue "{queue}" is inactive'
            return words, False, api.Admission(cluster_queue=queue)
        if not isinstance(trial.verdict, Nominated):
            return trial.verdict.note, False, api.Admission(cluster_queue=queue)
        assignment = trial.verdict.assignment
        admission = api.Admission(cluster_queue=queue)
        if assignment.mode is not Mode.NO_FIT:
            admission = decode(api.Admission, admission_to_wire(assignment.admission(queue)))
        return _describe_quota(assignment), assignment.mode is Mode.FIT, admission


def _describe_quota(assignment: Assignment) -> str:
    if assignment.mode is Mode.FIT:
        return "fits, on borrowed quota" if assignment.borrowing else "fits"
    words = "; ".join(str(explanation) for explanation in assignment.explanations())
    if assignment.mode is Mode.NO_FIT:
        return f"waits: {words}" if words else "waits"
    return f"fits once others are preempted: {words}" if words else "fits once others are preempted"


def _decision(view: DispatchView, answer: Answer, profile: str) -> Decision:
    return Decision(
        dispatcher=answer.dispatcher or view.dispatcher,
        profile=profile,
        view=view,
        nomination=answer.nomination,
        problem=answer.problem,
    )
