"""The provisioning controller: carries out the first matching rule until none matches.

Level-based: if the process is killed between two steps, the next one continues from the state that
the API server has.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from multiqueue.api import names
from multiqueue.api.autoscaling import ProvisioningRequest
from multiqueue.api.config import Gate
from multiqueue.api.v1beta2 import AdmissionCheck, Workload
from multiqueue.api.v1beta2.admission_check import ProvisioningRequestConfig
from multiqueue.api.v1beta2.meta import ObjectMeta, OwnerReference
from multiqueue.controllers.provisioning.configs import config_name, find_config, is_provisioning
from multiqueue.controllers.provisioning.decide import decide
from multiqueue.controllers.provisioning.execute import ProvisioningExecutor
from multiqueue.controllers.provisioning.view import ProvisioningCheck, ProvisioningView
from multiqueue.controllers.provisioning.watch import BY_OWNER, OwnedTemplate, RequestWatch
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.jobs.informers import BY_CHECK
from multiqueue.kube.reconciler import DONE, Reconciler, Result

CONCURRENCY = 8
MAX_STEPS = 12
"""Steps of one reconcile: a sync, a deletion and a creation for each of up to ten checks."""

log = structlog.get_logger("multiqueue.provisioning")


class ProvisioningController:
    """Reconciles Workloads that have provisioning checks, or requests left over.

    Args:
        context: The manager's context.
        watch: Requests, templates and configurations.
        jitter: Returns another random number in [0, 1) at each call.
    """

    name = "provisioning"

    def __init__(
        self, context: ManagerContext, watch: RequestWatch, *, jitter: Callable[[], float]
    ) -> None:
        self._context = context
        self._watch = watch
        self._jitter = jitter
        self._cleanup = context.config.gates.enabled(Gate.CLEANUP_PROVISIONING_REQUESTS_ON_EVICTION)
        self._executor = ProvisioningExecutor(context, watch)
        self._reconciler = Reconciler(
            self.name, self.reconcile, concurrency=CONCURRENCY, metrics=context.metrics
        )

    async def run(self) -> None:
        """Reconcile until cancelled, once all needed informers are synced."""
        informers, watch = self._context.informers, self._watch
        await wait_settled(
            informers.workloads, informers.admission_checks, informers.resource_flavors
        )
        await watch.synced.wait()
        informers.workloads.add_handler(self._on_workload)
        informers.admission_checks.add_handler(self._on_check)
        watch.configs.add_handler(self._on_config)
        watch.requests.add_handler(self._on_request)
        watch.templates.add_handler(self._on_template)
        await self._reconciler.run()

    async def reconcile(self, key: str) -> Result:
        """Carry out the next steps for the requests and checks of one Workload."""
        for _ in range(MAX_STEPS):
            view = self.observe(key)
            if view is None:
                return DONE
            result = await self._executor.execute(decide(view), view)
            if result is not None:
                return result
        log.warning("provisioning does not come to rest", workload=key, steps=MAX_STEPS)
        return Result(requeue_after=1.0)

    def observe(self, key: str) -> ProvisioningView | None:
        """Return what is known about a Workload; None if it is gone."""
        informers, watch = self._context.informers, self._watch
        workload = informers.workloads.store.get(key)
        if workload is None:
            return None
        requests = tuple(watch.requests.store.by_index(BY_OWNER, workload.metadata.uid))
        flavors = {
            name: flavor
            for name in _assigned_flavors(workload)
            if (flavor := informers.resource_flavors.store.get(name)) is not None
        }
        return ProvisioningView(
            workload=workload,
            checks=self._checks(workload),
            requests=requests,
            template_owners=self._template_owners(requests),
            flavors=flavors,
            cleanup=self._cleanup,
            jitter=self._jitter(),
            api_version=watch.requests.resource.api_version,
            now=self._context.clock.now(),
        )

    def _checks(self, workload: Workload) -> tuple[ProvisioningCheck, ...]:
        """Return the Workload's provisioning checks, by name."""
        found = []
        for state in sorted(workload.status.admission_checks, key=lambda state: state.name):
            check = self._context.informers.admission_checks.store.get(state.name)
            if check is None or not is_provisioning(check):
                continue
            config = find_config(check, self._watch.configs.store.get).config
            found.append(ProvisioningCheck(name=state.name, config=config.spec if config else None))
        return tuple(found)

    def _template_owners(
        self, requests: tuple[ProvisioningRequest, ...]
    ) -> dict[str, tuple[OwnerReference, ...]]:
        owners = {}
        for request in requests:
            for pod_set in request.spec.pod_sets:
                name = pod_set.pod_template_ref.name
                template = self._watch.templates.store.get(
                    names.key_of(request.metadata.namespace, name)
                )
                if template is not None:
                    owners[name] = template.metadata.owner_references
        return owners

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        del old
        if new is None:
            return
        checks = self._context.informers.admission_checks.store
        ours = any(is_provisioning(checks.get(s.name)) for s in new.status.admission_checks)
        if ours or self._watch.requests.store.by_index(BY_OWNER, new.metadata.uid):
            self._reconciler.queue.add(new.metadata.key)

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        for check in (old, new):
            if check is not None and is_provisioning(check):
                self._enqueue_users(check.metadata.name)

    def _on_config(
        self, old: ProvisioningRequestConfig | None, new: ProvisioningRequestConfig | None
    ) -> None:
        config = new or old
        assert config is not None
        for check in self._context.informers.admission_checks.store.list():
            if is_provisioning(check) and config_name(check) == config.metadata.name:
                self._enqueue_users(check.metadata.name)

    def _on_request(self, old: ProvisioningRequest | None, new: ProvisioningRequest | None) -> None:
        request = new or old
        assert request is not None
        self._enqueue_owner(request.metadata)

    def _on_template(self, old: OwnedTemplate | None, new: OwnedTemplate | None) -> None:
        template = new or old
        assert template is not None
        metadata = template.metadata
        self._enqueue_owner(metadata)
        for owner in metadata.owner_references:
            key = names.key_of(metadata.namespace, owner.name)
            request = self._watch.requests.store.get(key)
            if request is not None and request.metadata.uid == owner.uid:
                self._enqueue_owner(request.metadata)

    def _enqueue_owner(self, metadata: ObjectMeta) -> None:
        for owner in metadata.owner_references:
            if owner.kind == "Workload":
                self._reconciler.queue.add(names.key_of(metadata.namespace, owner.name))

    def _enqueue_users(self, check: str) -> None:
        for workload in self._context.informers.workloads.store.by_index(BY_CHECK, check):
            self._reconciler.queue.add(workload.metadata.key)


def _assigned_flavors(workload: Workload) -> set[str]:
    admission = workload.status.admission
    assignments = admission.pod_set_assignments if admission else ()
    return {flavor for assignment in assignments for flavor in assignment.flavors.values()}
