"""Answers why a Workload waits, with the numbers on which the manager decides.

``/apis/remote.multiqueue.dev/v1alpha1/namespaces/NS/workloads/NAME/explanation`` (get) gives the
reason, the position, each flavor's quota against the request, preemption and fair sharing, all from
the engine. A standby knows everything except the reason, which only cycles find; ``leading`` says
whether the leader answered.

A user who may read the explanations of one namespace sees no names from other namespaces. The names
of queues and Workloads elsewhere are shown only to users who may list the whole ClusterQueue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import orjson
from aiohttp import web

from multiqueue.api.names import key_of
from multiqueue.engine.engine import Engine
from multiqueue.serving.request import HttpRequest
from multiqueue.views.start import NoEstimate, tell_no_start
from multiqueue.visibility import documents, refusals
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer
from multiqueue.visibility.explanation_status import (
    add_words,
    build_status,
    hide_names,
    names_others,
)
from multiqueue.visibility.positions import PositionReader
from multiqueue.visibility.remote import is_exact
from multiqueue.visibility.remote_documents import (
    EXPLANATION,
    EXPLANATION_KIND,
    GROUP,
    VERSION,
    WORKLOADS,
)
from multiqueue.visibility.summary import VERSIONS, FindWorkload

JSON = "application/json"


class QuotaStarts(Protocol):
    """Estimates when a Workload starts."""

    async def find_start(self, key: str) -> Mapping[str, Any] | None:
        """Return its start, or why it is not known; None if it does not wait for quota here."""
        ...

    def add_calibration(self, start: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add how the last estimates held that are like this one, if it is one."""
        ...

    def list_calibrations(self) -> Iterator[Mapping[str, Any]]:
        """Yield how the last estimates held, by stage and horizon."""
        ...


class ExplanationAnswers:
    """Answers requests for explanations.

    Args:
        engine: The engine, which has the numbers.
        positions: Reads the queues' orders.
        find: Returns a Workload by its key.
        leading: Set while this manager leads.
        authorizer: Checks users' rights.
        starts: Estimates starts, for the leader's answers.
    """

    def __init__(
        self,
        engine: Engine,
        positions: PositionReader,
        find: FindWorkload,
        leading: asyncio.Event,
        authorizer: RightsReviewer,
        *,
        starts: QuotaStarts,
    ) -> None:
        self._engine = engine
        self._positions = positions
        self._find = find
        self._leading = leading
        self._authorizer = authorizer
        self._starts = starts

    @staticmethod
    def is_asked(action: ApiAction) -> bool:
        """Whether a request is about an explanation."""
        about = action.resource == WORKLOADS and action.subresource == EXPLANATION
        return action.group == GROUP and about

    async def answer(
        self, http: HttpRequest, action: ApiAction, user: AuthenticatedUser
    ) -> web.Response:
        """Answer one request of a user who may ask about this Workload.

        Raises:
            StatusRefusal: there is no such Workload.
        """
        if http.method != "GET":
            raise refusals.method_not_allowed()
        if not is_exact(http.path, action):
            raise refusals.no_such_path()
        key = key_of(action.namespace, action.name)
        workload = self._find(key)
        if workload is None:
            raise refusals.workload_not_found(action.name)
        local_queue = key_of(action.namespace, workload.spec.queue_name)
        name = self._engine.local_queue_target(local_queue) or ""
        positions = await self._positions.of_cluster_queue(name)
        start = await self._find_start(key)
        status = build_status(self._engine, key, name, positions, leading=self._leading.is_set())
        others = names_others(status, action.namespace)
        if others and not await self._may_list(user, name, action):
            hide_names(status, action.namespace)
        add_words(status)
        if status["pending"] and start is not None:
            status["start"] = start
        body = {
            "kind": EXPLANATION_KIND,
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {"name": action.name, "namespace": action.namespace},
            "status": status,
        }
        return web.Response(body=orjson.dumps(body), content_type=JSON)

    async def _find_start(self, key: str) -> Mapping[str, Any] | None:
        if not self._leading.is_set():
            return tell_no_start(NoEstimate.NOT_LEADING)
        start = await self._starts.find_start(key)
        return start if start is None else self._starts.add_calibration(start)

    async def _may_list(
        self, user: AuthenticatedUser, cluster_queue: str, action: ApiAction
    ) -> bool:
        """Whether a user may see all pending Workloads of a ClusterQueue."""
        whole = ApiAction(
            verb="get",
            path=action.path,
            group=refusals.GROUP,
            version=VERSIONS[0],
            resource="clusterqueues",
            name=cluster_queue,
            subresource=documents.PENDING,
        )
        try:
            await self._authorizer.authorize(user, whole)
        except refusals.StatusRefusal:
            return False
        return True
