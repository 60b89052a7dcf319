"""The fleet API of one manager: what it reads, what it keeps, and who may have how many streams.

Handlers of the informers only note which keys changed, and the transitions of Workloads. Rows are
computed when somebody reads. Once a minute the figures of queues and workers are kept.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import Any

from aiohttp import web

from multiqueue.api.v1beta2 import Workload
from multiqueue.engine.engine import Engine
from multiqueue.jobs.context import ManagerContext
from multiqueue.jobs.framework.job_source import BY_OWNER
from multiqueue.jobs.registry import SupportedKind
from multiqueue.kube.informer import Informer
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.explanations import QuotaStarts
from multiqueue.visibility.fleet.answers import FleetAnswers, find_resource
from multiqueue.visibility.fleet.census import Census
from multiqueue.visibility.fleet.feed import Feeds
from multiqueue.visibility.fleet.history import History
from multiqueue.visibility.fleet.journal import Journal
from multiqueue.visibility.fleet.queued_starts import QueuedStarts
from multiqueue.visibility.fleet.reasons import RowReasons
from multiqueue.visibility.fleet.resources import (
    CALIBRATIONS,
    CHANGES,
    FEEDS,
    GROUP,
    QUOTAS,
    SHARES,
    STANDINGS,
    TOTALS,
    WORKERS,
    FleetResource,
)
from multiqueue.visibility.fleet.rights import FleetRights, Recheck
from multiqueue.visibility.fleet.rows import DerivedRows, RowSource
from multiqueue.visibility.fleet.sources import Built, FleetSources
from multiqueue.visibility.fleet.standings import Standings
from multiqueue.visibility.fleet.starts import DecidedStarts, DecisionRecord
from multiqueue.visibility.fleet.stories import Stories
from multiqueue.visibility.fleet.watch import FleetWatches
from multiqueue.visibility.fleet.whatifs import WhatIfAnswers, WhatIfSource
from multiqueue.visibility.positions import PositionReader
from multiqueue.visibility.slots import Slots
from multiqueue.workers.connections.fleet import Fleet

MAX_STREAMS, MAX_STREAMS_OF_A_USER, MAX_PROXIED = 400, 8, 40
"""Streams of all readers, of one, and of those that come through the API server.

An API server may hold one of its own slots for each proxied watch as long as it lasts.
"""
SAMPLE_SECONDS = 60.0
SAMPLE_STEP = 20
"""Queues whose figures are kept before other tasks run."""


class FleetApi:
    """Serves the group.

    Args:
        context: The manager's context.
        engine: Knows queues and quotas.
        fleet: The workers.
        positions: Reads the queues' orders.
        decisions: The last dispatch decisions.
        reviewer: Asks for rights.
        leading: Set while this manager leads.
        starts: Estimates when Workloads get quota.
        whatifs: Tries changes out.

    Attributes:
        feeds: The feed.
        journal: Counts changes.
        standings: The rows of Workloads.
    """

    def __init__(
        self,
        context: ManagerContext,
        engine: Engine,
        fleet: Fleet,
        *,
        positions: PositionReader,
        decisions: DecisionRecord,
        reviewer: RightsReviewer,
        leading: asyncio.Event,
        starts: QuotaStarts,
        whatifs: WhatIfSource,
    ) -> None:
        now = context.clock.now()
        self._context = context
        self._closing = asyncio.Event()
        self.journal = Journal(now)
        self._history = History(now)
        self._census = Census(context.informers.workloads.store.get, engine.find_workload)
        rights, decided = FleetRights(reviewer), DecidedStarts(decisions)
        queued = QueuedStarts(starts, leading, context.clock.now)
        self.standings = Standings(
            context,
            engine,
            positions,
            decided,
            self.journal,
            queued=queued,
            reasons=RowReasons(engine, leading),
        )
        self._built = FleetSources(
            context,
            engine,
            fleet,
            census=self._census,
            history=self._history,
            starts=decided,
            queued=starts,
            list_queued=queued.list_known,
        )
        self._sources: dict[str, RowSource] = {
            STANDINGS.plural: self.standings,
            **{resource.plural: self._derive(resource) for resource in DERIVED},
        }
        stories = Stories(
            self.standings,
            engine,
            positions,
            history=self._history,
            decisions=decisions,
            rights=rights,
            leading=leading,
        )
        self._answers = FleetAnswers(
            self.standings,
            self._sources,
            stories,
            rights=rights,
            journal=self.journal,
            clock=context.clock,
            leading=leading,
            whatifs=WhatIfAnswers(whatifs, rights, context.informers.namespaces.store.keys),
        )
        common: dict[str, Any] = {"rights": rights, "journal": self.journal}
        common["closing"] = self._closing
        self._watches = FleetWatches(self._answers, self.standings, **common)
        self.feeds = Feeds(self._answers, self._sources, stories, **common)
        self._streams = Slots(MAX_STREAMS, MAX_STREAMS_OF_A_USER)
        self._proxied = Slots(MAX_PROXIED, MAX_STREAMS_OF_A_USER)
        self._follow(context)

    def _derive(self, resource: FleetResource) -> DerivedRows:
        def build() -> Built:
            rows: Built = getattr(self._built, resource.plural)()
            return rows

        return DerivedRows(resource, self.journal, build, self._census.catch_up)

    # ---------------------------------------------------------------- requests

    @staticmethod
    def is_asked(action: ApiAction) -> bool:
        """Whether a request is about a resource of the group."""
        return action.group == GROUP and bool(action.resource)

    async def answer(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.StreamResponse:
        """Answer a request that is no stream.

        Raises:
            StatusRefusal: the request cannot be answered.
        """
        return await self._answers.answer(http, action, user)

    async def stream(
        self,
        http: HttpRequest,
        action: ApiAction,
        user: AuthenticatedUser,
        recheck: Recheck,
        *,
        is_proxied: bool,
    ) -> web.StreamResponse:
        """Serve a feed or a watch until it ends.

        Args:
            http: The request.
            action: Its action, for which the user is authorized.
            user: Who reads.
            recheck: Raises `StatusRefusal` once the credentials are not valid any more.
            is_proxied: Whether the request came through the API server.

        Raises:
            StatusRefusal: it cannot begin; 429 if there are too many.
        """
        resource = find_resource(http, action)
        with ExitStack() as slots:
            slots.enter_context(self._streams.take(user.name))
            if is_proxied:
                slots.enter_context(self._proxied.take(user.name))
            if resource is FEEDS:
                return await self.feeds.serve(http, user, recheck)
            source = self._sources[resource.plural]
            return await self._watches.serve(http, action, user, source, recheck)

    @property
    def built_rows(self) -> int:
        """How many rows were built since the start; it does not grow while nobody reads."""
        return sum(source.built for source in self._sources.values())

    def close(self) -> None:
        """End all streams with ``shutdown``; nothing new is served afterwards."""
        self._closing.set()

    # ---------------------------------------------------------------- what happens

    async def run(self) -> None:
        """Keep the figures of each minute until cancelled."""
        self._closing.clear()  # this may not be the first run
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            if not self._streams.under_way:
                self.standings.forget_unread()
            await self.sample()

    async def sample(self) -> None:
        """Keep the figures of this minute."""
        await self._census.catch_up()
        now, names = self._context.clock.now(), set()
        for count, (name, figures) in enumerate(self._built.minutes(), start=1):
            names.add(name)
            self._history.note_minute(name, now, figures)
            if count % SAMPLE_STEP == 0:
                await asyncio.sleep(0)
        self._history.keep_minutes_of(names)

    def _follow(self, context: ManagerContext) -> None:
        informers = context.informers
        informers.workloads.add_handler(self._on_workload)
        specs: tuple[Informer[Any], ...] = (
            informers.cluster_queues,
            informers.cohorts,
            informers.local_queues,
            informers.resource_flavors,
            informers.admission_checks,
            informers.multikueue_clusters,
            informers.dispatch_profiles,
        )
        for informer in specs:
            informer.add_handler(partial(self._on_spec, informer))
        for jobs in informers.jobs.values():
            jobs.add_handler(self._on_job)
        context.integrations.add_listener(on_added=self._on_kind, on_removed=lambda _: None)

    def _on_kind(self, kind: SupportedKind) -> None:
        jobs = self._context.informers.jobs.get(kind.integration.name)
        if jobs is not None:
            jobs.add_handler(self._on_job)

    def _on_workload(self, old: Workload | None, new: Workload | None) -> None:
        known = new or old
        assert known is not None
        key = known.metadata.key
        self.journal.note(STANDINGS.plural, key)
        self._census.note(key)
        if new is None:
            self.standings.forget(key)
        self._history.note_workload(old, new, self._context.clock.now())

    def _on_job(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        known = new or old
        assert known is not None
        uid = known["metadata"].get("uid", "")
        for workload in self._context.informers.workloads.store.by_index(BY_OWNER, uid):
            self.journal.note(STANDINGS.plural, workload.metadata.key)
            self._history.note_job(workload, old, new, self._context.clock.now())

    def note_action(self, kind: str, key: str, verb: str, by: str) -> None:
        """Note in ``changes`` what a reader did on the dashboard of this process."""
        self._history.note_action(kind, key, verb, by, self._context.clock.now())

    def _on_spec(self, informer: Informer[Any], old: Any, new: Any) -> None:
        if informer.synced.is_set():  # else it is not a change, but the first list
            kind, now = informer.resource.kind, self._context.clock.now()
            self._history.note_spec(kind, old, new, now)


DERIVED = (QUOTAS, WORKERS, TOTALS, SHARES, CHANGES, CALIBRATIONS)
"""Resources whose rows `FleetSources` builds, in the method of the same name."""
