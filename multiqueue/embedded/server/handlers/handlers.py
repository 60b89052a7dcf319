"""The entry of all requests: authenticates, routes, and turns every failure into a Status."""

from collections.abc import Awaitable, Callable
from functools import partial

import structlog
from aiohttp import web

from multiqueue.embedded.server import status
from multiqueue.embedded.server.aggregation.aggregator import Aggregator
from multiqueue.embedded.server.authz.entrance import Entrance
from multiqueue.embedded.server.handlers import objects as handlers_objects
from multiqueue.embedded.server.handlers.meta import MetaHandlers
from multiqueue.embedded.server.kinds import Kind, KindVersion
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.pod_logs.pod_logs import PodLog, get_log
from multiqueue.embedded.server.query import first_values
from multiqueue.embedded.server.request import ServerRequest, parse_accept, status_response
from multiqueue.embedded.server.routes import Route, parse_route
from multiqueue.embedded.server.status import StatusError
from multiqueue.embedded.server.storage.storage import StorageFailed
from multiqueue.embedded.server.target import OperationTarget

log = structlog.get_logger(__name__)

Handler = Callable[[ServerRequest, OperationTarget], Awaitable[web.StreamResponse]]

COLLECTION: dict[str, tuple[str, Handler]] = {
    "GET": ("list", handlers_objects.list_or_watch),
    "POST": ("create", handlers_objects.post),
    "DELETE": ("deletecollection", handlers_objects.remove_collection),
}
OBJECT: dict[str, tuple[str, Handler]] = {
    "GET": ("get", handlers_objects.get),
    "PUT": ("update", handlers_objects.put),
    "PATCH": ("patch", handlers_objects.patch),
    "DELETE": ("delete", handlers_objects.remove),
}
SUBRESOURCE = {method: OBJECT[method] for method in ("GET", "PUT", "PATCH")}
NOT_FOUND_TEXT = "404 page not found\n"


class Handlers:
    """Answers every request of one server."""

    def __init__(
        self,
        objects: Objects,
        entrance: Entrance,
        aggregator: Aggregator,
        meta: MetaHandlers,
        pod_log: PodLog,
    ) -> None:
        self._objects = objects
        self._entrance = entrance
        self._aggregator = aggregator
        self._meta = meta
        self._read: dict[str, Handler] = {"log": partial(get_log, pod_log)}
        """Subresources whose GET shows something else than the object."""

    async def __call__(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            return await self._answer(http)
        except StatusError as error:
            return status_response(error)
        except StorageFailed as error:
            message = f"the storage failed, nothing was changed: {error}"
            return status_response(status.internal_error(message))
        except Exception:
            log.exception("request failed", method=http.method, path=http.rel_url.raw_path)
            return status_response(
                status.internal_error("unexpected failure, see the server's log")
            )

    async def _answer(self, http: web.BaseRequest) -> web.StreamResponse:
        path = http.rel_url.raw_path
        user = self._entrance.find_user(http)
        query = first_values(http.query.items()) if http.query_string else {}
        route = parse_route(path) if path.startswith(("/api/", "/apis/")) else None
        if route is None:
            self._entrance.check_path(user, http)
        else:
            self._entrance.check_resource(user, http, route, query)
        backend = self._aggregator.find(path)
        if backend is not None:
            return await self._aggregator.forward(http, user, backend)
        if route is None:
            answer = self._meta.answer(path, http, query)
            return answer if answer is not None else page_not_found()
        wanted = parse_accept(http.headers.get("Accept", ""))
        request = ServerRequest(http, self._objects, self._entrance, user, query, wanted)
        return await self._answer_resource(request, route)

    async def _answer_resource(self, request: ServerRequest, route: Route) -> web.StreamResponse:
        kind = self._objects.registry.get(route.group, route.plural)
        version = kind.version(route.version) if kind is not None else None
        if kind is None or version is None or not _fits(route, kind):
            return page_not_found()
        if version.deprecated:
            text = f"{kind.api_version(version.name)} {kind.kind} is deprecated"
            request.warnings.append(version.deprecation_warning or text)
        target = OperationTarget(
            kind=kind,
            version=version,
            namespace=route.namespace or "",
            name=route.name,
            subresource=route.subresource,
        )
        method = request.http.method
        if route.subresource:
            return await self._answer_subresource(request, target, method)
        verb, handler = (OBJECT if route.name else COLLECTION).get(method, ("", None))
        if handler is None or not _allows(kind, verb, route):
            raise status.method_not_allowed()
        return await handler(request, target)

    async def _answer_subresource(
        self, request: ServerRequest, target: OperationTarget, method: str
    ) -> web.StreamResponse:
        if _has_standard_subresource(target.version, target.subresource):
            handler = SUBRESOURCE.get(method, ("", None))[1]
            if handler is None:
                raise status.method_not_allowed()
            return await handler(request, target)
        subresource = target.kind.subresource(target.subresource)
        if subresource is None:
            return page_not_found()
        verb = {"POST": "create", "PUT": "update", "GET": "get"}.get(method)
        if verb not in subresource.verbs:
            raise status.method_not_allowed()
        if verb == "get":
            return await self._read.get(target.subresource, handlers_objects.get)(request, target)
        return await handlers_objects.change_subresource(request, target, subresource)


def _fits(route: Route, kind: Kind) -> bool:
    """Whether the path has a namespace where the kind wants one."""
    if route.namespace is not None:
        return kind.namespaced
    return not (kind.namespaced and route.name)


def _allows(kind: Kind, verb: str, route: Route) -> bool:
    everywhere = kind.namespaced and route.namespace is None
    return verb in kind.verbs and not (everywhere and verb in {"create", "deletecollection"})


def _has_standard_subresource(version: KindVersion, name: str) -> bool:
    return (name == "status" and version.has_status) or (
        name == "scale" and version.scale is not None
    )


def page_not_found() -> web.Response:
    """What Go's HTTP server says; clients of Kubernetes know it."""
    return web.Response(text=NOT_FOUND_TEXT, status=404)
