"""Why a Workload went where it went, and where a manifest would go.

``/apis/remote.multiqueue.dev/v1alpha1/namespaces/NS/workloads/NAME/dispatch`` (get) is the last
decision about a Workload, ``.../namespaces/NS/dispatchreviews`` (create) what would be decided
about a manifest, ``.../dispatchdecisions`` (list) the last decisions: a recording for who accepts
``application/x-ndjson``, else a list, or a Table for ``kubectl get``. Only the manager that leads
decides; another one says so, and who asks again finds it sooner or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import orjson
from aiohttp import web

from multiqueue.api.names import key_of
from multiqueue.lib.bounded_json import JsonError, load
from multiqueue.plugins import Forecast
from multiqueue.plugins.recording import Decision, dump, write_recording
from multiqueue.serving.request import HttpRequest
from multiqueue.visibility import refusals
from multiqueue.visibility.answers import wanted_form
from multiqueue.visibility.authorization import ApiAction
from multiqueue.visibility.decision_list import build_table, write_list
from multiqueue.visibility.remote_documents import (
    DECISIONS,
    DISPATCH,
    GROUP,
    REVIEWS,
    VERSION,
    WORKLOADS,
)

JSON, LINES = "application/json", "application/x-ndjson"
API_VERSION = f"{GROUP}/{VERSION}"


class ReviewLike(Protocol):
    """What would be decided about a manifest."""

    @property
    def decision(self) -> Decision:
        """The dispatcher's decision."""
        ...

    @property
    def quota(self) -> str:
        """What the manager's quota says."""
        ...

    @property
    def fits(self) -> bool:
        """Whether that lets it in now."""
        ...

    @property
    def cluster_queue(self) -> str:
        """Whose quota it is."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What of the manifest would be ignored."""
        ...


class DecisionSource(Protocol):
    """Knows what was decided, and what would be."""

    def find(self, key: str) -> Decision | None:
        """Return the last decision about a Workload, ``namespace/name``."""
        ...

    def list_decisions(self) -> Iterable[Decision]:
        """Return the last decisions, the oldest first."""
        ...

    def review(self, manifest: Mapping[str, Any], namespace: str) -> Awaitable[ReviewLike]:
        """Say where a job would go; raises `ValueError` with what is wrong with it."""
        ...


class DecisionAnswers:
    """Answers requests about decisions.

    Args:
        decision_service: Knows them.
        leading: Set while this manager leads.
        exists: Whether a Workload of that key does.
    """

    def __init__(
        self,
        decision_service: DecisionSource,
        leading: asyncio.Event,
        exists: Callable[[str], bool],
    ) -> None:
        self._decision_service = decision_service
        self._leading = leading
        self._exists = exists

    @staticmethod
    def is_asked(action: ApiAction) -> bool:
        """Whether a request is about decisions."""
        about = action.resource == WORKLOADS and action.subresource == DISPATCH
        return action.group == GROUP and (about or action.resource in {REVIEWS, DECISIONS})

    async def answer(self, http: HttpRequest, action: ApiAction) -> web.StreamResponse:
        """Answer one request of a user who may.

        Raises:
            Refusal: there is nothing to tell, or it cannot be told here.
        """
        if not self._leading.is_set():
            raise refusals.not_leading()
        if action.resource == REVIEWS:
            return await self._review(http, action)
        if http.method not in {"GET", "HEAD"}:
            raise refusals.method_not_allowed()
        if action.resource == DECISIONS:
            if action.namespace or action.name:  # it is about all namespaces, and so are its rights
                raise refusals.no_such_path()
            return await self._list(http)
        key = key_of(action.namespace, action.name)
        decision = self._decision_service.find(key)
        if decision is None:
            if not self._exists(key):
                raise refusals.workload_not_found(action.name)
            raise refusals.not_decided(key)
        told = dump(for_namespace(decision, action.namespace))
        return _respond("DispatchDecision", action.name, action.namespace, told)

    async def _list(self, http: HttpRequest) -> web.StreamResponse:
        """Answer as a recording where that is wanted, else as kubectl wants it."""
        accept, decisions = http.headers.get("Accept", ""), self._decision_service.list_decisions()
        if LINES in accept:
            return await _send(http, LINES, write_recording(decisions))
        form = wanted_form(accept)
        if form == JSON:
            return await _send(http, JSON, write_list(decisions, API_VERSION))
        body = orjson.dumps(build_table(decisions, form))
        return web.Response(body=body, content_type=JSON)

    async def _review(self, http: HttpRequest, action: ApiAction) -> web.Response:
        if http.method != "POST" or not action.namespace:
            raise refusals.method_not_allowed()
        manifest = read_manifest(await http.read())
        try:
            review = await self._decision_service.review(manifest, action.namespace)
        except ValueError as error:
            raise refusals.invalid(str(error)) from error
        told = {
            "clusterQueue": review.cluster_queue,
            "quota": review.quota,
            "fits": review.fits,
            "notices": list(review.notices),
            "decision": dump(for_namespace(review.decision, action.namespace)),
        }
        metadata = manifest.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        return _respond("DispatchReview", name, action.namespace, told)


def read_manifest(body: bytes) -> dict[str, Any]:
    """Return ``spec.manifest`` of a DispatchReview.

    Raises:
        Refusal: 400, there is none.
    """
    try:
        review = load(body)
    except JsonError as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from error
    spec = review.get("spec") if isinstance(review, dict) else None
    manifest = spec.get("manifest") if isinstance(spec, dict) else None
    if not isinstance(manifest, dict):
        raise refusals.bad_request("spec.manifest: must be a job")
    return manifest


def for_namespace(decision: Decision, namespace: str) -> Decision:
    """Leave out the names of victims in other namespaces: who may ask may not see those."""
    clusters = tuple(
        cluster
        if cluster.forecast is None
        else replace(cluster, forecast=_without_strangers(cluster.forecast, namespace))
        for cluster in decision.view.clusters
    )
    return replace(decision, view=replace(decision.view, clusters=clusters))


def _without_strangers(forecast: Forecast, namespace: str) -> Forecast:
    return replace(
        forecast,
        victims=tuple(
            victim if victim.key.startswith(f"{namespace}/") else replace(victim, key="")
            for victim in forecast.victims
        ),
    )


async def _send(http: HttpRequest, type_: str, pieces: Iterable[bytes]) -> web.StreamResponse:
    """Send one decision after the other; between two of them others may work."""
    response = web.StreamResponse(headers={"Content-Type": type_})
    await response.prepare(http)
    for piece in pieces:
        await response.write(piece)
        await asyncio.sleep(0)
    await response.write_eof()
    return response


def _respond(kind: str, name: str, namespace: str, status: Any) -> web.Response:
    body = {
        "kind": kind,
        "apiVersion": API_VERSION,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    return web.Response(body=orjson.dumps(body), content_type=JSON)
