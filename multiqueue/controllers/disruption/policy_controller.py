"""Writes the condition Active of DisruptionPolicies, and tells queues whose policy is not there."""

from __future__ import annotations

from multiqueue.api.conditions import ACTIVE, set_condition
from multiqueue.api.names import DISRUPTION_POLICY
from multiqueue.api.serde import encode
from multiqueue.api.v1alpha1 import DisruptionPolicy, DisruptionPolicyStatus
from multiqueue.api.v1beta2 import ClusterQueue, Cohort
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.events import build_reference
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import CLUSTER_QUEUES, COHORTS
from multiqueue.kube.status_writes import write_status
from multiqueue.model.disruption_policy import build_disruption_rules, named_policy

READY, INVALID = "Ready", "Invalid"
"""Reasons of the condition."""
NOT_THERE = "DisruptionPolicyNotFound"
"""Reason of the Event of a queue or a Cohort."""
HOLDS_NOBODY_UP = "it changes nothing: every field has its default"
IN_FORCE = "it counts for the ClusterQueues that it governs"


class DisruptionPolicyController:
    """Reconciles DisruptionPolicies; the engine reads them by itself.

    Args:
        context: The manager's context.
    """

    name = "disruption-policies"

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._told: set[tuple[str, str]] = set()
        self._reconciler: Reconciler[str] = Reconciler(
            self.name, self.reconcile, metrics=context.metrics
        )
        informers = context.informers
        informers.disruption_policies.add_handler(self._on_policy)
        informers.cluster_queues.add_handler(self._on_user)
        informers.cohorts.add_handler(self._on_user)

    async def run(self) -> None:
        """Work until cancelled."""
        informers = self._context.informers
        await informers.disruption_policies.settled.wait()
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Write the status of one policy, or tell its users that it is not there."""
        policy = self._context.informers.disruption_policies.store.get(name)
        if policy is None:
            self._tell_users(name)
            return DONE
        self._told = {told for told in self._told if told[0] != name}
        await self._write(policy)
        return DONE

    async def _write(self, policy: DisruptionPolicy) -> None:
        rules = build_disruption_rules(policy)
        conditions = set_condition(
            policy.status.conditions,
            type_=ACTIVE,
            status=not rules.problem,
            reason=INVALID if rules.problem else READY,
            message=rules.problem or (HOLDS_NOBODY_UP if rules.is_empty else IN_FORCE),
            now=self._context.clock.now(),
            observed_generation=policy.metadata.generation,
        )
        if conditions == policy.status.conditions:
            return
        status = encode(DisruptionPolicyStatus(conditions=conditions))
        informer = self._context.informers.disruption_policies
        await write_status(self._context.client, informer, policy, status)

    def _tell_users(self, policy: str) -> None:
        """Record on each queue and Cohort that names a missing policy what that means, once."""
        informers = self._context.informers
        users = (
            (CLUSTER_QUEUES, informers.cluster_queues.store.list()),
            (COHORTS, informers.cohorts.store.list()),
        )
        for resource, objects in users:
            for obj in objects:
                name, uid = obj.metadata.name, obj.metadata.uid
                if named_policy(obj.metadata) != policy or (policy, uid) in self._told:
                    continue
                self._told.add((policy, uid))
                self._context.recorder.event(
                    build_reference({"metadata": {"name": name, "uid": uid}}, resource),
                    "Warning",
                    NOT_THERE,
                    f'DisruptionPolicy "{policy}" is not there: nothing of this queue is '
                    "preempted, and it preempts nobody; create the policy, or change the "
                    f"annotation {DISRUPTION_POLICY}",
                )

    def _on_policy(self, old: DisruptionPolicy | None, new: DisruptionPolicy | None) -> None:
        changed = new or old
        assert changed is not None, "an event has an object"
        if old is None or new is None or old.spec != new.spec:
            self._reconciler.queue.add(changed.metadata.name)

    def _on_user(
        self, old: ClusterQueue | Cohort | None, new: ClusterQueue | Cohort | None
    ) -> None:
        named = "" if new is None else named_policy(new.metadata)
        if named and (old is None or named_policy(old.metadata) != named):
            self._reconciler.queue.add(named)
