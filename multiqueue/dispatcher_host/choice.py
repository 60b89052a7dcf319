"""Choose the dispatcher for a Workload: its queues' profile, or the manager's default.

Each dispatcher is isolated from the others. They are still asked one at a time: two dispatchers
that see the same free room would both give it away. `turns` divides the time between profiles.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from multiqueue.api.config import Configuration
from multiqueue.api.config.types import PROCESS
from multiqueue.api.names import DISPATCH_PROFILE
from multiqueue.api.v1alpha1 import DispatchProfile
from multiqueue.dispatcher_host.answer import Answer
from multiqueue.dispatcher_host.arguments import build_arguments, build_section_arguments
from multiqueue.dispatcher_host.canary import Trials
from multiqueue.dispatcher_host.host import Hung
from multiqueue.dispatcher_host.isolation.host import ProcessHost
from multiqueue.dispatcher_host.isolation.missing_restrictions import MissingRestrictions
from multiqueue.dispatcher_host.live_profile import Accept, BuildView, LiveProfile
from multiqueue.dispatcher_host.policy import (
    DispatcherSetting,
    DispatchPolicy,
    build_plain_policy,
    build_policy,
    list_references,
)
from multiqueue.dispatcher_host.profile_conditions import why_returned
from multiqueue.dispatcher_host.references import Reference
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.dispatcher_host.runner import DispatchRunner, Listeners
from multiqueue.dispatcher_host.shadow import ShadowQuestion, Shadows
from multiqueue.dispatcher_host.turns import Turns
from multiqueue.kube.call_thread import OpenThread, PluginThread
from multiqueue.kube.informer import Informer
from multiqueue.lib.quantity import parse_quantity
from multiqueue.plugins import DispatchView

if TYPE_CHECKING:
    from multiqueue.observability.metrics import ManagerMetrics

OnDecision = Callable[[DispatchView, Answer, str], None]
"""Gets the view, the answer, and the name of the profile (empty if there is none)."""

log = structlog.get_logger("multiqueue.dispatch")


class DispatcherChoice:
    """The dispatchers in use, by profile or by the name that configurations use.

    Args:
        dispatchers: The installed dispatchers.
        config: The configuration, which names the default dispatcher or profile.
        metrics: The manager's metrics.
        now: Returns the current time.
        profiles: The informer of DispatchProfiles; None if they are not used.
        open_thread: Makes the threads in which dispatchers run.

    Attributes:
        name: Name of this part of the manager.
        shadows: Asks the shadow dispatchers.
        on_change: Called when decisions may be different from now on.
        on_news: Called with the name of a profile whose status may have changed.
    """

    name = "multikueue-dispatchers"

    def __init__(
        self,
        dispatchers: Dispatchers,
        config: Configuration,
        metrics: ManagerMetrics,
        *,
        now: Callable[[], datetime],
        profiles: Informer[DispatchProfile] | None = None,
        open_thread: OpenThread = PluginThread,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_news: Callable[[str], None] = lambda _: None
        self.shadows = Shadows(self._count_shadow)
        self._dispatchers = dispatchers
        self._config = config
        self.metrics = metrics
        self._now = now
        self._profiles = profiles
        self._open_thread = open_thread
        self._turns = Turns()
        self._is_over = False
        self._plain: dict[str, LiveProfile] = {}
        self._live: dict[str, LiveProfile] = {}
        self._hung: dict[str, Hung] = {}
        self._open_ways = MissingRestrictions(
            lambda name, count: metrics.dispatcher_open_ways.child(name).set(count)
        )
        self.trials: dict[str, LiveProfile] = {}
        self._on_decision: list[OnDecision] = []
        self._listeners = Listeners(
            # The child is looked up each time, because leadership changes its label "role".
            on_answer=lambda name, took: metrics.dispatch_duration_seconds.child(name).observe(
                took
            ),
            on_failure=lambda name, why: metrics.dispatch_failures_total.child(name, why).inc(),
            on_finding=lambda name, found: metrics.dispatch_misconduct_total.child(
                name, found.kind
            ).inc(),
        )
        if profiles is not None:
            profiles.add_handler(self._on_profile)

    async def run(self) -> None:
        """Ask shadows until cancelled; after that, no dispatcher is asked any more."""
        if self._is_over:  # an earlier run closed all profiles
            self._live.clear()
            self._plain.clear()
            self._is_over = False
        try:
            await self.shadows.run()
        finally:
            self._is_over = True
            for live in (*self._live.values(), *self._plain.values()):
                live.close()

    def add_listener(self, on_decision: OnDecision) -> None:
        """Call a listener with every answer, including failed ones."""
        self._on_decision.append(on_decision)

    def choose(self, reference: Reference) -> LiveProfile:
        """Return the live profile for a reference; one is kept for each name in use."""
        profile = reference.profile
        if profile or (self._config.multi_kueue.dispatch_profile and not reference.dispatcher):
            source = reference.source or "multiKueue.dispatchProfile"
            return self.find_profile(
                profile or self._config.multi_kueue.dispatch_profile, source=source
            )
        name = reference.dispatcher or self._config.multi_kueue.dispatcher_name
        if name not in self._plain:
            self._plain[name] = self._open(
                build_plain_policy(name, partial(build_arguments, self._config))
            )
        return self._plain[name]

    def find_profile(self, name: str, *, source: str = "") -> LiveProfile:
        """Return the live profile of a name; if no such profile exists, its problem says so."""
        live = self._live.get(name)
        if live is not None:
            return live
        profile = self._find(name)
        if profile is None:
            words = f'DispatchProfile "{name}" not found ({source}: {DISPATCH_PROFILE})'
            if source == "multiKueue.dispatchProfile":
                words = f'DispatchProfile "{name}" not found ({source})'
            return self._open(DispatchPolicy(profile=name, problem=f"{words}; create it"))
        defaults = partial(build_section_arguments, self._config)
        policy = build_policy(profile, self._find, defaults)
        live = self._live[name] = self._open(policy, returned=why_returned(profile))
        return live

    async def ask(self, reference: Reference, build_view: BuildView, accept: Accept) -> Answer:
        """Ask where to send a Workload."""
        live, before, shown, answer = await self._ask(reference, build_view, accept)
        profile = live.policy.profile
        for listener in self._on_decision:
            listener(shown, answer, profile)
        if profile:
            self._follow_up(live, shown, answer)
            if before != live.problem or live.figures.decisions == 1:
                self.on_news(profile)
        return answer

    async def _ask(
        self, reference: Reference, build_view: BuildView, accept: Accept
    ) -> tuple[LiveProfile, str, DispatchView, Answer]:
        """Ask the current dispatcher; if its profile changes meanwhile, ask the new one."""
        while True:
            live = self.choose(reference)
            before = live.problem
            got = await live.ask(build_view, accept)
            if self._is_over:
                nobody = Answer(problem="the manager ends", retry_at=self._now())
                return live, before, *(got or (build_view(), nobody))
            if got is not None and not (live.is_closed and got[1].nomination is None):
                return live, before, *got

    async def consult(
        self, reference: Reference, build_view: BuildView
    ) -> tuple[DispatchView, Answer, str]:
        """Return the view, the answer and the profile's name, without any effect (a dry run)."""
        live = self.choose(reference)
        shown, answer = await live.consult(build_view)
        return shown, answer, live.policy.profile

    # ------------------------------------------------------------ Workloads of profiles

    def note(self, uid: str, happened: Callable[[Trials, str, datetime], bool]) -> None:
        """Pass a start or loss of a Workload to its trials (`Trials.note_start`, `note_loss`)."""
        live = self.trials.get(uid)
        if live is not None and live.trials is not None and happened(live.trials, uid, self._now()):
            self.judge(live)

    def forget_workload(self, uid: str) -> None:
        """Forget a Workload that is gone or no longer has quota."""
        live = self.trials.pop(uid, None)
        if live is not None and live.trials is not None:
            live.trials.forget(uid)

    def judge(self, live: LiveProfile) -> None:
        """Return a canary to the base if it does worse than its limits allow."""
        if live.trials is None or live.returned:
            return
        live.trials.expire(self._now())
        why = live.trials.why_return()
        if not why:
            return
        live.returned = why
        log.warning("canary returned", profile=live.policy.profile, reason=why)
        self.on_news(live.policy.profile)
        self.on_change()

    def _follow_up(self, live: LiveProfile, shown: DispatchView, answer: Answer) -> None:
        policy = live.policy
        result = "Fallback" if answer.instead_of else "Failed" if answer.problem else "Decided"
        self.metrics.dispatch_decisions_total.child(policy.profile, result).inc()
        if live.trials is not None:
            self.trials[shown.workload.uid] = live
            self.judge(live)
        if live.shadow is not None and live.shadow_figures is not None and answer.nomination:
            self.shadows.put(
                ShadowQuestion(
                    policy.profile, live.shadow, live.shadow_figures, shown, answer.nomination
                )
            )

    def _count_shadow(self, profile: str, differs: bool) -> None:  # noqa: FBT001 - a callback
        self.metrics.dispatch_shadow_decisions_total.child(profile).inc()
        if differs:
            self.metrics.dispatch_shadow_differences_total.child(profile).inc()
        live = self._live.get(profile)
        figures = live.shadow_figures if live is not None else None
        if figures is not None and 1 in {figures.decisions, figures.differences}:
            self.on_news(profile)

    # ------------------------------------------------------------ changes of profiles

    def _find(self, name: str) -> DispatchProfile | None:
        return self._profiles.store.get(name) if self._profiles is not None else None

    def _on_profile(self, old: DispatchProfile | None, new: DispatchProfile | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        profile = new or old
        assert profile is not None
        name = profile.metadata.name
        for each in {name, *self._list_referrers(name)}:
            self._drop(each)
        if new is None:
            self.metrics.forget(profile=name)
        self.on_change()

    def _list_referrers(self, name: str) -> list[str]:
        return [
            other
            for other in self._live
            if (found := self._find(other)) is not None and name in list_references(found)
        ]

    def _drop(self, name: str) -> None:
        live = self._live.pop(name, None)
        if live is None:
            return
        live.close()
        self.trials = {uid: each for uid, each in self.trials.items() if each is not live}
        self.on_news(name)

    def _open(self, policy: DispatchPolicy, *, returned: str = "") -> LiveProfile:
        return LiveProfile(
            policy, self._open_runner, turns=self._turns, now=self._now, returned=returned
        )

    def _open_runner(self, way: DispatcherSetting) -> DispatchRunner:
        name = way.dispatcher
        if name not in self._hung:
            self._hung[name] = Hung(
                lambda count: self.metrics.dispatcher_hung_threads.child(name).set(count)
            )
        section = self._config.multi_kueue.dispatcher_isolation
        find = self._dispatchers.find if section.mode == PROCESS else self._dispatchers.select
        return DispatchRunner(
            way,
            lambda: find(name, outside=way.outside),
            now=self._now,
            listeners=self._listeners,
            open_thread=self._open_thread,
            open_apart=partial(
                ProcessHost,
                memory=parse_quantity(section.memory).value(),
                on_open_ways=self._open_ways.note,
            ),
            hung=self._hung[name],
        )
