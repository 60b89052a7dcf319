"""Answers of the visibility API about dispatch decisions.

Paths below ``/apis/remote.multiqueue.dev/v1alpha1``:

* ``/namespaces/NS/workloads/NAME/dispatch`` (get): the last decision about a Workload.
* ``/namespaces/NS/dispatchreviews`` (create): the decision that a manifest would get.
* ``/dispatchdecisions`` (list): the last decisions of all namespaces. If the request accepts
  ``application/x-ndjson``, they are a recording; else a list, or a Table for ``kubectl get``.

Only the leading manager decides. Other replicas say that they do not lead; a client that tries
again reaches the leader sooner or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import orjson
from aiohttp import web

from multiqueue.api.names import key_of
from multiqueue.lib.bounded_json import JsonError, load
from multiqueue.plugins import ClusterClaim, StoppedWorkload
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
T = TypeVar("T", ClusterClaim, StoppedWorkload)


class ReviewLike(Protocol):
    """The decision that a manifest would get."""

    @property
    def decision(self) -> Decision:
        """The dispatcher's decision."""
        ...

    @property
    def quota(self) -> str:
        """The result of the manager's quota check."""
        ...

    @property
    def fits(self) -> bool:
        """Whether the manager's quota would admit it now."""
        ...

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue whose quota it would use."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """The parts of the manifest that would be ignored."""
        ...


class DecisionSource(Protocol):
    """Keeps the last decisions, and makes dry runs."""

    def find(self, key: str) -> Decision | None:
        """Return the last decision about a Workload, ``namespace/name``."""
        ...

    def list_decisions(self) -> Iterable[Decision]:
        """Return the last decisions, the oldest first."""
        ...

    def review(self, manifest: Mapping[str, Any], namespace: str) -> Awaitable[ReviewLike]:
        """Return where a job would go; `ValueError` says what is wrong with the manifest."""
        ...


class DecisionAnswers:
    """Answers requests about decisions.

    Args:
        decision_service: Keeps the decisions.
        leading: Set while this manager leads.
        exists: Whether a Workload with a key exists.
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
        """Answer one request of an authorized user.

        Raises:
            StatusRefusal: there is no decision, or this replica cannot give it.
        """
        if not self._leading.is_set():
            raise refusals.not_leading()
        if action.resource == REVIEWS:
            return await self._review(http, action)
        if http.method != "GET":
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
        """Answer with a recording if the request accepts one, else in a form for kubectl."""
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
        StatusRefusal: 400, there is no manifest.
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
    """Remove the names of Workloads in other namespaces, which the user may not be able to see."""
    clusters = tuple(
        replace(
            cluster,
            claims=_without_strangers(cluster.claims, namespace),
            forecast=cluster.forecast
            and replace(
                cluster.forecast, victims=_without_strangers(cluster.forecast.victims, namespace)
            ),
        )
        for cluster in decision.view.clusters
    )
    return replace(decision, view=replace(decision.view, clusters=clusters))


def _without_strangers(named: tuple[T, ...], namespace: str) -> tuple[T, ...]:
    return tuple(
        each if each.key.startswith(f"{namespace}/") else replace(each, key="") for each in named
    )


async def _send(http: HttpRequest, type_: str, pieces: Iterable[bytes]) -> web.StreamResponse:
    """Send the decisions one by one; other tasks can run between two of them."""
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
