"""Applies a plan: its removals, then the steps in order, and copies side by side.

Every step may be repeated; a step that cannot be done now ends the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.config.gates import Gate
from multiqueue.api.ran_on import read_ran_on
from multiqueue.api.workload_state import is_admitted, is_evicted
from multiqueue.capacity.fleet_limits import FleetLimits
from multiqueue.dispatch.decide import plan as steps
from multiqueue.dispatch.decide.copy import epoch_of
from multiqueue.dispatch.decide.plan import GroupPlan
from multiqueue.dispatch.decide.view import Check
from multiqueue.dispatch.execute.accounting import NOTHING, Account, account
from multiqueue.dispatch.execute.manager_writes import LocalWriter, Outdated
from multiqueue.dispatch.execute.outcome import AGAIN, DONE, WAITING, Outcome, stuck
from multiqueue.dispatch.execute.remote_steps import LATE, RemoteSteps
from multiqueue.dispatch.execute.slice_steps import SliceSteps
from multiqueue.dispatch.observe.fitting import Fitting
from multiqueue.dispatch.observe.memory import GroupMemory
from multiqueue.dispatch.observe.observe import Observation
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.gvk import GroupVersionKind
from multiqueue.jobs.framework.integration import MEMBERS, Finished, Integration
from multiqueue.kube.errors import KubeError, NotFound
from multiqueue.workers.connections.fleet import Fleet

Json = dict[str, Any]
LocalStep = steps.Nominate | steps.SetCheck | steps.Explain

DEFERRED_SECONDS = 2.0
"""When to bring back again a status that the local job could not take yet (M-140)."""

log = structlog.get_logger("multiqueue.dispatch")


class Executor:
    """Applies plans.

    Args:
        context: The manager's context.
        fleet: The workers.
        limits: The most that the workers' queues could ever hold.
        fitting: Adapts copies and jobs to the queues of their worker.
        wake: Called with the key of a Workload whose request to a worker ended late.
    """

    def __init__(
        self,
        context: ManagerContext,
        fleet: Fleet,
        limits: FleetLimits,
        fitting: Fitting,
        *,
        wake: Callable[[str], None],
    ) -> None:
        self._context = context
        self._fleet = fleet
        self._limits = limits
        self._local = LocalWriter(context)
        self._remote = RemoteSteps(context, fleet, fitting, wake=wake)
        self._slices = SliceSteps(fleet, self._remote)

    async def apply(self, plan: GroupPlan, seen: Observation, memory: GroupMemory) -> Outcome:
        """Carry out a plan.

        Raises:
            KubeError: The manager's own API server failed.
        """
        outcomes = [await self._remote.remove(plan.removals, seen.view.key)]
        creations = [s.cluster for s in plan.steps if isinstance(s, steps.CreateWorkload)]
        try:
            for step in plan.steps:
                if not isinstance(step, steps.CreateWorkload):
                    outcomes.append(await self._apply(step, seen, memory))
                    if not outcomes[-1].goes_on:
                        return _join(outcomes)
        except Outdated as reason:
            log.debug("plan is outdated", workload=seen.view.key, reason=str(reason))
            return AGAIN
        except NotFound:
            return WAITING
        if creations:
            outcomes.append(await self._remote.create_workloads(creations, seen, memory))
        return _join(outcomes)

    async def _apply(self, step: steps.Step, seen: Observation, memory: GroupMemory) -> Outcome:
        match step:
            case steps.SyncJob(cluster=cluster):
                if self._find_remote_job(cluster, seen) is None:
                    return await self._remote.create_job(cluster, seen, memory)
                outcomes = [
                    await self._mirror(cluster, seen, memory),
                    await self._sync_spec(cluster, seen, memory),
                ]
                if seen.view.local is not None and seen.view.local.elastic:
                    outcomes.append(await self._slices.resize_job(cluster, seen, memory))
                return _join(outcomes)
            case steps.MirrorStatus(cluster=cluster):
                return await self._mirror(cluster, seen, memory)
            case steps.FinishJob():
                return await self._finish_job(step, seen)
            case steps.StopLocalJob():
                return await self._stop_local_job(step, seen)
            case steps.Nominate() | steps.SetCheck() | steps.Explain():
                return await self._write(step, seen, memory)
            case steps.FinishLocal() | steps.EndEviction():
                return await self._end(step, seen)
        return await self._apply_remote(step, seen, memory)

    async def _apply_remote(
        self,
        step: steps.Removal
        | steps.CreateWorkload
        | steps.UpdatePriority
        | steps.TakeJobOver
        | steps.ResizeCopy
        | steps.DeactivateCopy
        | steps.OpenGate
        | steps.ConfirmCopyGone
        | steps.ConfirmJobGone,
        seen: Observation,
        memory: GroupMemory,
    ) -> Outcome:
        remote = self._remote
        match step:
            case steps.Removal():
                return await remote.remove((step,), seen.view.key)
            case steps.CreateWorkload(cluster=cluster):
                return await remote.create_workloads([cluster], seen, memory)
            case steps.UpdatePriority():
                return await remote.update_priority(step, seen, memory)
            case steps.TakeJobOver(cluster=cluster):
                return await self._slices.take_job_over(cluster, seen, memory)
            case steps.ResizeCopy(cluster=cluster):
                return await self._slices.resize_copy(cluster, seen, memory)
            case steps.DeactivateCopy(cluster=cluster):
                return await remote.deactivate(cluster, seen, memory)
            case steps.OpenGate():
                return await remote.open_gate(step, seen, memory)
            case steps.ConfirmCopyGone():
                return await remote.confirm_copy_gone(step, seen, memory)
            case steps.ConfirmJobGone(cluster=cluster):
                return await remote.confirm_job_gone(cluster, seen, memory)

    # ------------------------------------------------------------ the Workload

    async def _write(self, step: LocalStep, seen: Observation, memory: GroupMemory) -> Outcome:
        workload, local = seen.workload, seen.view.local
        if workload is None or local is None or local.check is None:
            return WAITING
        now = self._context.clock.now()
        match step:
            case steps.Nominate():
                await self._local.nominate(workload, local.check.name, step)
                self._tell_trouble(step, workload, memory)
                memory.explained_at = now
            case steps.Explain():
                if local.is_pending and memory.may_explain(local.check.message, step.message, now):
                    await self._local.explain(workload, local.check.name, step.message)
                    self._tell_trouble(step, workload, memory)
                    memory.explained_at = now
            case steps.SetCheck():
                await self._set_check(step, workload, local.check, seen)
        return DONE

    async def _end(self, step: steps.FinishLocal | steps.EndEviction, seen: Observation) -> Outcome:
        if seen.workload is None:
            return WAITING
        if isinstance(step, steps.FinishLocal):
            await self._local.finish(seen.workload, step)
        else:
            await self._local.end_eviction(seen.workload)
        return AGAIN

    def _tell_trouble(
        self, step: steps.Nominate | steps.Explain, workload: api.Workload, memory: GroupMemory
    ) -> None:
        if memory.meet(step.trouble):
            self._local.tell(workload, step.message, warning=True)

    async def _set_check(
        self, step: steps.SetCheck, workload: api.Workload, check: Check, seen: Observation
    ) -> None:
        copy = None
        session = self._fleet.find_session(step.cluster) if step.cluster is not None else None
        if session is not None:
            copy = session.find_copy(seen.view.key)
        found = NOTHING
        if step.cluster is not None:
            if copy is None or copy.status.admission is None:
                # The worker may have taken its admission back since the decision.
                raise Outdated("what it runs with there cannot be seen")
            found = await self._account(step.cluster, workload, copy)
            step = replace(step, message="; ".join(filter(None, (step.message, str(found)))))
        await self._local.set_check(workload, check.name, step, copy, ran_on=found.ran_on)
        log.info(
            "check changed",
            workload=seen.view.key,
            state=str(step.state),
            worker=step.cluster,
            reason=step.message,
        )
        if step.state is CheckState.READY and step.cluster is not None:
            admission = workload.status.admission
            queue = admission.cluster_queue if admission is not None else ""
            metrics = self._context.metrics
            metrics.multikueue_workloads_admitted_total.child(queue, step.cluster).inc()
            for each in found.substitutions:
                labels = (queue, step.cluster, each.reserved, each.ran)
                metrics.substituted_flavors_total.child(*labels).inc()

    async def _account(self, cluster: str, workload: api.Workload, copy: api.Workload) -> Account:
        """Charge the hardware and pods that the worker used instead of the reserved ones."""
        if workload.status.admission is None:
            return NOTHING
        limits = self._limits.find(cluster)
        informers, name = self._context.informers, workload.status.admission.cluster_queue
        found = account(
            workload,
            copy,
            limits.find_for(workload) if limits is not None else None,
            informers.cluster_queues.store.get(name),
            informers.resource_flavors.store.get,
        )
        if found.ran_on or read_ran_on(workload.metadata.annotations, epoch_of(workload)):
            await self._local.charge(workload, found.ran_on)
        return found

    # ------------------------------------------------------------ the local job

    async def _mirror(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        remote = self._find_remote_job(cluster, seen)
        if remote is None or seen.job is None or seen.adapter is None:
            return DONE
        if seen.job.get(MEMBERS):
            return await self._mirror_members(cluster, seen, memory, remote)
        if self._is_starting(seen) and not self._has_ended(remote, seen):
            # A write now would make that one fail. The end of that one wakes us.
            return Outcome(after=DEFERRED_SECONDS)
        sync = seen.adapter.status_patch(seen.job, remote)
        if sync.patch is not None:
            await self._local.patch_job_status(seen.adapter, seen.job, sync.patch)
        self._observe_lag(cluster, seen)
        return Outcome(after=DEFERRED_SECONDS) if sync.deferred else DONE

    async def _sync_spec(self, cluster: str, seen: Observation, memory: GroupMemory) -> Outcome:
        """Forward what of the local job's spec may change while the job runs (M-145)."""
        remote, adapter = self._find_remote_job(cluster, seen), seen.adapter
        is_on = self._context.config.gates.enabled(Gate.MULTIKUEUE_REMOTE_SPEC_SYNC)
        if not is_on or remote is None or seen.job is None or adapter is None:
            return DONE
        patch = adapter.spec_patch(seen.job, remote)
        if patch is None:
            return DONE
        return await self._remote.patch_job(cluster, remote, patch, seen, memory)

    async def _mirror_members(
        self, cluster: str, seen: Observation, memory: GroupMemory, remote: Json
    ) -> Outcome:
        """Bring back the status of each member, and send those that came later."""
        assert seen.adapter is not None
        assert seen.job is not None
        late = []
        for local, there in seen.adapter.pair(seen.job, remote):
            if there is None:
                late.append(local)
                continue
            patch = seen.adapter.status_patch(local, there).patch
            if patch is not None:
                await self._local.patch_job_status(seen.adapter, local, patch)
        self._observe_lag(cluster, seen)
        return await self._remote.create_job(cluster, seen, memory, late) if late else DONE

    def _observe_lag(self, cluster: str, seen: Observation) -> None:
        session = self._fleet.find_session(cluster)
        lag = session.take_lag(seen.view.key) if session is not None else None
        if lag is not None:
            self._context.metrics.remote_sync_lag_seconds.child(cluster).observe(lag)

    async def _finish_job(self, step: steps.FinishJob, seen: Observation) -> Outcome:
        """Bring back the last status; if it is lost, one that says how the Workload ended."""
        if seen.adapter is None or seen.job is None:
            return DONE
        remote: object = self._find_remote_job(step.cluster, seen)
        if not isinstance(remote, dict) or not self._has_ended(remote, seen):
            # Changes of the copy may arrive before those of the job.
            remote = await self._remote.read_job(step.cluster, seen)
            if isinstance(remote, KubeError):
                return stuck(DEFERRED_SECONDS)
            if remote is LATE:
                return WAITING
            if isinstance(remote, dict):
                # What was read is one of its objects, which the informer has now, too.
                remote = self._find_remote_job(step.cluster, seen)
        has_ended = isinstance(remote, dict) and self._has_ended(remote, seen)
        end = Finished(success=step.finish.success, message=step.finish.message)
        for local, there in seen.adapter.pair(seen.job, remote if isinstance(remote, dict) else {}):
            if has_ended and there is not None:
                patch = seen.adapter.status_patch(local, there).patch
            else:
                patch = seen.adapter.final_patch(local, end, self._context.clock.now())
            if patch is not None:
                await self._local.patch_job_status(seen.adapter, local, patch)
        return DONE

    async def _stop_local_job(self, step: steps.StopLocalJob, seen: Observation) -> Outcome:
        if seen.adapter is None or seen.job is None:
            return DONE
        patches = [(each, seen.adapter.stopped_patch(each)) for each in _objects_of(seen.job)]
        for each, patch in patches:
            if patch is not None:
                await self._local.patch_job_status(seen.adapter, each, patch)
        if any(patch is not None for _, patch in patches):
            log.info("nothing runs any more", workload=seen.view.key, reason=step.why)
        return DONE

    def _has_ended(self, remote: Json, seen: Observation) -> bool:
        integration = self._find_integration(seen)
        return integration is not None and integration.finished(remote) is not None

    def _is_starting(self, seen: Observation) -> bool:
        """Whether the local job is about to get its flavors and start."""
        workload, integration = seen.workload, self._find_integration(seen)
        return (
            workload is not None
            and seen.job is not None
            and integration is not None
            and not integration.is_composed
            and is_admitted(workload.status)
            and not is_evicted(workload.status)
            and integration.is_suspended(seen.job)
        )

    def _find_integration(self, seen: Observation) -> Integration | None:
        if seen.adapter is None:
            return None
        kind = GroupVersionKind.of_resource(seen.adapter.resource)
        return self._context.integrations.find_by_gvk(kind)

    def _find_remote_job(self, cluster: str, seen: Observation) -> Json | None:
        session = self._fleet.find_session(cluster)
        if session is None:
            return None
        found = (session.find_job(key) for key in (seen.view.key, *seen.view.earlier))
        return next((each[1] for each in found if each is not None), None)


def _objects_of(job: Json) -> Sequence[Json]:
    found: Sequence[Json] = job.get(MEMBERS) or (job,)
    return found


def _join(outcomes: list[Outcome]) -> Outcome:
    after = [outcome.after for outcome in outcomes if outcome.after is not None]
    return Outcome(
        goes_on=all(outcome.goes_on for outcome in outcomes),
        again=any(outcome.again for outcome in outcomes),
        after=min(after, default=None),
    )
