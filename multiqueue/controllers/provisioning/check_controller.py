"""The Active condition of ProvisioningRequest AdmissionChecks."""

from __future__ import annotations

from dataclasses import dataclass

from multiqueue.api.conditions import CheckReason
from multiqueue.api.v1beta2 import AdmissionCheck
from multiqueue.controllers.provisioning.configs import ConfigFound, find_config, is_provisioning
from multiqueue.controllers.provisioning.watch import RequestWatch
from multiqueue.jobs.check_condition import write_active
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.reconciler import wait_settled
from multiqueue.kube.reconciler import DONE, Reconciler, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The content of a check's Active condition."""

    active: bool
    reason: CheckReason
    message: str


def judge_check(found: ConfigFound, *, watch_problem: str) -> CheckVerdict:
    """Return the content of the Active condition. Pure.

    Deviates: if requests cannot be made or watched, the check is not active and says why; the
    reference leaves it without a condition.
    """
    if found.problem:
        return CheckVerdict(
            active=False, reason=CheckReason.BAD_PARAMETERS_REF, message=found.problem
        )
    if watch_problem:
        return CheckVerdict(
            active=False, reason=CheckReason.KIND_UNAVAILABLE, message=watch_problem
        )
    return CheckVerdict(
        active=True, reason=CheckReason.ACTIVE, message="The admission check is active"
    )


class ProvisioningCheckController:
    """Keeps the Active condition of provisioning checks up to date."""

    name = "provisioning-checks"

    def __init__(self, context: ManagerContext, watch: RequestWatch) -> None:
        self._context = context
        self._watch = watch
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        checks = self._context.informers.admission_checks
        await wait_settled(checks, self._watch.configs)
        checks.add_handler(self._on_check)
        self._watch.configs.add_handler(self._on_config)
        self._watch.add_listener(self._enqueue_all)
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Write the condition of one check, if it changed."""
        checks = self._context.informers.admission_checks
        check = checks.store.get(name)
        # The API kinds are queried at the start; a guess would stop queues for a moment.
        problem = self._watch.problem
        if check is None or not is_provisioning(check) or problem is None:
            return DONE
        found = find_config(check, self._watch.configs.store.get)
        verdict = judge_check(found, watch_problem=problem)
        await write_active(
            self._context,
            check,
            active=verdict.active,
            reason=verdict.reason,
            message=verdict.message,
        )
        return DONE

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        del old
        if new is not None and is_provisioning(new):
            self._reconciler.queue.add(new.metadata.name)

    def _on_config(self, old: object, new: object) -> None:
        del old, new
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        for check in self._context.informers.admission_checks.store.list():
            if is_provisioning(check):
                self._reconciler.queue.add(check.metadata.name)
