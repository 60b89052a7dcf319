"""Which dispatcher decides about a Workload: its queues' profile, or the manager's own.

Each runs behind a fence of its own. They are asked one at a time all the same: two that saw the
same room would both give it away. `turns` shares that time between profiles.
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
from multiqueue.dispatcher_host.isolation.open_ways import OpenWays
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
"""Gets what was seen, what was answered, and the name of the profile; empty: none."""

log = structlog.get_logger("multiqueue.dispatch")


class DispatcherChoice:
    """The dispatchers in use, by profile or by the name that configurations call them.

    Args:
        dispatchers: What there is to choose from.
        config: Names the manager's own.
        metrics: Where they are counted.
        now: Tells the time.
        profiles: The DispatchProfiles; None where there are none.
        open_thread: Makes the threads that they run in.

    Attributes:
        name: Among the parts of the manager.
        shadows: Asks those that decide beside.
        on_change: Called when Workloads may be dispatched otherwise from now on.
        on_news: Called with the name of a profile of which there is something to tell.
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
        self._metrics = metrics
        self._now = now
        self._profiles = profiles
        self._open_thread = open_thread
        self._turns = Turns()
        self._is_over = False
        self._plain: dict[str, LiveProfile] = {}
        self._live: dict[str, LiveProfile] = {}
        self._hung: dict[str, Hung] = {}
        self._open_ways = OpenWays(
            lambda name, count: metrics.dispatcher_open_ways.child(name).set(count)
        )
        self._trials: dict[str, LiveProfile] = {}
        self._on_decision: list[OnDecision] = []
        self._listeners = Listeners(
            # Looked up each time: leadership changes the role that is part of the child.
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
        """Ask those that decide beside, until cancelled; then nobody is asked any more."""
        if self._is_over:  # by an earlier run, which closed them all
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
        """Call this with every answer, the failed ones included."""
        self._on_decision.append(on_decision)

    def choose(self, reference: Reference) -> LiveProfile:
        """Return who decides where that is named. Grows with what administrators name."""
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
        """Return a profile at work; one that does not exist says so."""
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
        """Ask where a Workload shall go."""
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
        """Ask whoever decides now; a profile that is changed meanwhile is asked as it is then."""
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
        """Return what was seen, what would be answered, and the name of the profile; no more."""
        live = self.choose(reference)
        shown, answer = await live.consult(build_view)
        return shown, answer, live.policy.profile

    # ------------------------------------------------------------ Workloads of profiles

    def note(self, uid: str, happened: Callable[[Trials, str, datetime], bool]) -> None:
        """A Workload was admitted, or lost its cluster: `Trials.note_start`, `Trials.note_loss`."""
        live = self._trials.get(uid)
        if live is not None and live.trials is not None and happened(live.trials, uid, self._now()):
            self.judge(live)

    def forget_workload(self, uid: str) -> None:
        """A Workload is gone, or has no quota any more."""
        live = self._trials.pop(uid, None)
        if live is not None and live.trials is not None:
            live.trials.forget(uid)

    def judge(self, live: LiveProfile) -> None:
        """Have a canary return where it does worse than it may."""
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
        self._metrics.dispatch_decisions_total.child(policy.profile, result).inc()
        if live.trials is not None:
            self._trials[shown.workload.uid] = live
            self.judge(live)
        if live.shadow is not None and live.shadow_figures is not None and answer.nomination:
            self.shadows.put(
                ShadowQuestion(
                    policy.profile, live.shadow, live.shadow_figures, shown, answer.nomination
                )
            )

    def _count_shadow(self, profile: str, differs: bool) -> None:  # noqa: FBT001 - a callback
        self._metrics.dispatch_shadow_decisions_total.child(profile).inc()
        if differs:
            self._metrics.dispatch_shadow_differences_total.child(profile).inc()
        live = self._live.get(profile)
        figures = live.shadow_figures if live is not None else None
        if figures is not None and 1 in {figures.decisions, figures.differences}:
            self.on_news(profile)

    # ------------------------------------------------------------ profiles that change

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
            self._metrics.forget(profile=name)
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
        self._trials = {uid: each for uid, each in self._trials.items() if each is not live}
        self.on_news(name)

    def _open(self, policy: DispatchPolicy, *, returned: str = "") -> LiveProfile:
        return LiveProfile(
            policy, self._open_runner, turns=self._turns, now=self._now, returned=returned
        )

    def _open_runner(self, way: DispatcherSetting) -> DispatchRunner:
        name = way.dispatcher
        if name not in self._hung:
            self._hung[name] = Hung(
                lambda count: self._metrics.dispatcher_hung_threads.child(name).set(count)
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
