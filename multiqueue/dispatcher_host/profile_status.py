"""Keep the status of DispatchProfiles: important changes at once, figures now and then."""

from __future__ import annotations

from typing import Any

from multiqueue.api.serde import encode
from multiqueue.api.v1alpha1 import DispatchProfile, DispatchProfileStatus
from multiqueue.api.v1beta2 import Workload
from multiqueue.api.workload_state import has_quota, is_finished
from multiqueue.dispatcher_host.canary import Trials
from multiqueue.dispatcher_host.choice import DispatcherChoice
from multiqueue.dispatcher_host.live_profile import LiveProfile
from multiqueue.dispatcher_host.profile_conditions import build_status, find_news
from multiqueue.jobs.context import ManagerContext
from multiqueue.kube.events import build_reference
from multiqueue.kube.reconciler import DONE, Reconciler, Result
from multiqueue.kube.resources import DISPATCH_PROFILES
from multiqueue.kube.status_writes import write_status

FIGURES_SECONDS = 10.0
"""How old figures in a status may be."""
LOADING_SECONDS = 1.0
"""Interval for checking a package that is being imported; until then nothing is written."""
NEWS_SECONDS = 0.5
"""News of a profile within this time are combined into one write."""


class ProfileReconciler:
    """Loads profiles when they appear or change, and writes their status.

    Args:
        context: The manager's context.
        choice: The live profiles.
    """

    name = "multikueue-profiles"

    def __init__(self, context: ManagerContext, choice: DispatcherChoice) -> None:
        self._context = context
        self._choice = choice
        self._reconciler = Reconciler(self.name, self.reconcile, metrics=context.metrics)
        context.informers.dispatch_profiles.add_handler(self._on_profile)
        context.informers.workloads.add_handler(self._on_workload)
        choice.on_news = self._tell_soon

    async def run(self) -> None:
        """Work until cancelled."""
        await self._context.informers.dispatch_profiles.settled.wait()
        await self._reconciler.run()

    async def reconcile(self, name: str) -> Result:
        """Write the status of one profile if it changed."""
        profile = self._context.informers.dispatch_profiles.store.get(name)
        if profile is None:
            return DONE
        live = self._choice.find_profile(name)
        await live.prepare()
        if live.shadow is not None:
            await live.shadow.prepare()
        if any(runner.is_loading for runner in live.runners):
            return Result(requeue_after=LOADING_SECONDS)
        self._choice.judge(live)
        self._show(live)
        status = build_status(profile, live, self._context.clock.now())
        if status != profile.status:
            await self._write(profile, status)
        return Result(requeue_after=FIGURES_SECONDS)

    async def _write(self, profile: DispatchProfile, status: DispatchProfileStatus) -> None:
        informer = self._context.informers.dispatch_profiles
        patch = _complete(status)
        if await write_status(self._context.client, informer, profile, patch) is None:
            return
        metadata = {"name": profile.metadata.name, "uid": profile.metadata.uid}
        regarding = build_reference({"metadata": metadata}, DISPATCH_PROFILES)
        for condition, is_bad in find_news(profile.status.conditions, status.conditions):
            self._context.recorder.event(
                regarding,
                "Warning" if is_bad else "Normal",
                f"{condition.type}{condition.reason}",
                condition.message,
            )

    def _show(self, live: LiveProfile) -> None:
        canary = live.policy.canary
        percent = canary.percent if canary is not None and not live.returned else 0
        self._context.metrics.dispatch_canary_percent.child(live.policy.profile).set(percent)

    def _tell_soon(self, name: str) -> None:
        self._reconciler.queue.add_after(name, NEWS_SECONDS)

    def _on_profile(self, old: DispatchProfile | None, new: DispatchProfile | None) -> None:
        if new is not None and (old is None or old.spec != new.spec):
            self._reconciler.queue.add(new.metadata.name)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        """Record starts and losses of canaries' Workloads, and forget those that ended."""
        workload = new or old
        assert workload is not None
        uid = workload.metadata.uid
        ran = old is not None and bool(old.status.cluster_name)
        if ran and new is not None and not new.status.cluster_name and not is_finished(new.status):
            self._choice.note(uid, Trials.note_loss)
        if new is not None and new.status.cluster_name:
            self._choice.note(uid, Trials.note_start)
        elif new is None or is_finished(new.status) or not has_quota(new.status):
            self._choice.forget_workload(uid)


def _complete(status: DispatchProfileStatus) -> dict[str, Any]:
    """Return the patch; it names fields at their default too, to replace old values."""
    body: dict[str, Any] = {
        "observedGeneration": status.observed_generation,
        "since": status.since,
        "decisions": status.decisions,
        "failures": status.failures,
        "fallbacks": status.fallbacks,
        "shadow": encode(status.shadow) if status.shadow is not None else None,
        "canary": encode(status.canary) if status.canary is not None else None,
        "conditions": [encode(condition) for condition in status.conditions],
    }
    return body
