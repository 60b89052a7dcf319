"""The client for the Kubernetes API: one method per verb.

Everything that reads or writes a cluster calls it. Guarantees: every request has a deadline and
goes through the limiter of its API server. Leases are excepted: leadership must not wait for our
own load. Failures are a `KubeError` that names verb, resource and object. Callers choose how
objects are decoded; objects are never changed.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Generic, Self, cast
from urllib.parse import urlencode

from multiqueue.kube.bookmarks import BookmarkRhythm
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import AnswerTooLarge, Gone
from multiqueue.kube.limiter import RateLimiter
from multiqueue.kube.resources import LEASES, SERVICES, Resource
from multiqueue.kube.sender import Sender, SendOutcome
from multiqueue.kube.transport import ApiRequest, HttpTransport, OpenTransport, Response
from multiqueue.kube.wire import (
    BOOKMARK,
    Json,
    Params,
    WatchEvent,
    build_loader,
    build_params,
    describe,
    encode,
    parse_frame,
    parse_object,
    parse_page,
    read_answer,
)

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

T = TypeVar("T", default=Json)
"""The type that an object is decoded to; a dict unless the caller gives a decoder."""

DEFAULT_TIMEOUT = 30.0
LIST_TIMEOUT = 120.0
PAGE_SIZE = 500
"""Objects per page, as in kubectl and client-go; keeps a page of Workloads near 2 MB."""
MAX_KNOWN_WARNINGS = 256
_PARSE: Callable[[bytes], Any] = parse_object
"""The default decoder; it is cast because a default value cannot be of type T."""


class PatchType(StrEnum):
    """The format of a patch; the value is its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(slots=True)
class ObjectList(Generic[T]):
    """Objects of one list, with the resourceVersion to watch from."""

    items: list[T]
    resource_version: str


class KubeClient:
    """Client of one API server.

    Args:
        credentials: The server's address and our identity there.
        limiter: The limiter shared by all clients of the same API server; a new one by default.
        user_agent: The name of this program in the server's audit log.
        default_timeout: Seconds that a request may take.
        field_manager: Our name in managedFields as the owner of fields.
        on_warning: Called with each text of a ``Warning`` header; logs each text once by default.
        on_outcome: Called with the outcome of every request.
        open_transport: Opens the transport that sends the requests.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        limiter: RateLimiter | None = None,
        user_agent: str = "multiqueue",
        default_timeout: float = DEFAULT_TIMEOUT,
        field_manager: str | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_outcome: Callable[[SendOutcome], None] | None = None,
        open_transport: OpenTransport = HttpTransport,
    ) -> None:
        self.credentials = credentials
        self.limiter = limiter or RateLimiter()
        self._default_timeout = default_timeout
        self._field_manager = field_manager
        self._known_warnings: set[str] = set()
        self._rhythm = BookmarkRhythm()
        self._transport = open_transport(
            credentials, user_agent=user_agent, on_warning=on_warning or self._log_warning
        )
        self._sender = Sender(self._transport, self.limiter, on_outcome=on_outcome)

    async def __aenter__(self) -> Self:
        self._transport.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        decode: Callable[[bytes], T] = _PARSE,
    ) -> T:
        """Read one object.

        Raises:
            NotFound: no object has that name.
        """
        return await self._call(
            "GET", resource, namespace, name, subresource=subresource, decode=decode
        )

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        resource_version: str | None = None,
        decode: Callable[[bytes], T] | None = None,
    ) -> ObjectList[T]:
        """Read all objects of a collection in pages of one consistent resourceVersion.

        The server omits apiVersion and kind in the items of built-in lists; dicts get them back.

        Args:
            resource: The collection.
            namespace: Only this namespace.
            label_selector: Only objects with these labels.
            field_selector: Only objects with these fields.
            limit: Page size; 0 asks for everything at once.
            resource_version: ``"0"`` accepts the server's cache, which may be old.
            decode: Decodes the bytes of one item.
        """
        what: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "resource_version": resource_version,
            "decode": decode,
        }
        try:
            return await _collect(self.pages(resource, limit=limit, **what))
        except Gone:
            # The version expired between two pages; a list in one page cannot expire.
            return await _collect(self.pages(resource, limit=0, **what))

    async def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        resource_version: str | None = None,
        decode: Callable[[bytes], T] | None = None,
    ) -> AsyncGenerator[ObjectList[T], None]:
        """Read a collection as `list` does, but yield each page as it arrives.

        A page that is too large is requested again in smaller pages, down to one object.

        Raises:
            AnswerTooLarge: a single object is too large.
            Gone: the version of the first page expired on the server; begin again.
        """
        load = decode or cast("Callable[[bytes], T]", build_loader(resource))
        what = describe("LIST", resource, namespace)
        params = build_params(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            limit=str(limit) if limit else None,
        )
        while True:
            try:
                body = await self._call(
                    "GET",
                    resource,
                    namespace,
                    None,
                    params=params,
                    decode=bytes,
                )
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 8) if limit else PAGE_SIZE
                params["limit"] = str(limit)
                continue
            page = parse_page(body, what)
            items = [read_answer(bytes(item), load, what) for item in page.items or ()]
            yield ObjectList(items, page.metadata.resource_version)
            token = page.metadata.continue_
            if not token:
                return
            params["continue"] = token
            params.pop("resourceVersion", None)

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        strict: bool = False,
        decode: Callable[[bytes], T] = _PARSE,
    ) -> T:
        """Create an object; its namespace is the argument, or the one in its metadata.

        With ``strict``, the server refuses unknown and duplicate fields instead of dropping them.

        Raises:
            AlreadyExists: an object of that name exists.
        """
        metadata = obj.get("metadata") or {}
        return await self._call(
            "POST",
            resource,
            namespace or metadata.get("namespace"),
            None,
            params=build_params(
                dryRun="All" if dry_run else None,
                fieldManager=self._field_manager,
                fieldValidation="Strict" if strict else None,
            ),
            body=obj,
            title=metadata.get("name") or metadata.get("generateName"),
            decode=decode,
        )

    async def replace(
        self,
        resource: Resource,
        name: str,
        obj: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Json:
        """Replace a whole object. Prefer `patch`, which leaves other writers' fields alone.

        Raises:
            Conflict: the object changed since the resourceVersion in its metadata.
        """
        return await self._call(
            "PUT",
            resource,
            namespace,
            name,
            subresource=subresource,
            params=build_params(fieldManager=self._field_manager),
            body=obj,
            decode=parse_object,
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        patch_type: PatchType = PatchType.MERGE,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        decode: Callable[[bytes], T] = _PARSE,
    ) -> T:
        """Change parts of an object.

        ``metadata.resourceVersion`` in a merge patch makes the patch conditional.

        Args:
            resource: The collection.
            name: Name of the object.
            patch: Merge patch, list of JSON patch operations, or the applied configuration.
            namespace: Namespace of the object.
            subresource: The subresource to patch, such as ``status``.
            patch_type: How the server reads the patch.
            field_manager: Owner of the fields, instead of the client's field manager.
            force: With `PatchType.APPLY`: take fields over from other managers.
            dry_run: Whether the server only checks the change, with its webhooks.
            decode: Decodes the bytes of the answer.

        Raises:
            Conflict: the object changed since that resourceVersion, or others own applied fields.
        """
        return await self._call(
            "PATCH",
            resource,
            namespace,
            name,
            subresource=subresource,
            params=build_params(
                dryRun="All" if dry_run else None,
                fieldManager=field_manager or self._field_manager,
                force="true" if force else None,
            ),
            body=patch,
            content_type=patch_type.value,
            decode=decode,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        propagation: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete an object.

        Args:
            resource: The collection.
            name: Name of the object.
            namespace: Its namespace.
            propagation: ``Background``, ``Foreground`` or ``Orphan``; the kind's default otherwise.
            uid: Delete the object only if it has this uid.
            resource_version: Delete the object only if it has this resourceVersion.
            grace_seconds: Seconds that a Pod gets to end.
            dry_run: Whether the server only checks the deletion.

        Raises:
            NotFound: no object has that name.
            Conflict: `uid` or `resource_version` do not match.
        """
        preconditions = build_params(uid=uid, resourceVersion=resource_version)
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            options["dryRun"] = ["All"]
        await self._call("DELETE", resource, namespace, name, body=options, decode=bytes)

    async def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float | None = None,
        open_timeout: float | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow a collection from a resourceVersion until the server ends the stream.

        Close the generator with `contextlib.aclosing` if you leave it early. One call is one
        attempt: `Informer` retries.

        Args:
            resource: The collection.
            resource_version: Where to start, from a list or an earlier event.
            namespace: Only this namespace.
            label_selector: Only objects with these labels.
            field_selector: Only objects with these fields.
            timeout_seconds: How long the server should keep the stream; 5 to 10 minutes by default,
                spread so that streams do not end together. A stream without bookmarks for too long
                (`BookmarkRhythm`) is given up earlier.
            open_timeout: Seconds until the stream must be open.
            on_open: Called when the stream is open, which may be long before the first event.

        Raises:
            Gone: the resourceVersion is too old, at the start or in the stream; list again.
            TransportError: the connection broke, fell silent or sent something that is not JSON.
        """
        seconds = timeout_seconds or random.uniform(300, 600)  # noqa: S311 - spreads load
        params = build_params(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(max(1, int(seconds))),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        what = describe("WATCH", resource, namespace)
        request = ApiRequest(
            method="GET",
            target=f"{resource.path(namespace)}?{urlencode(params)}",
            what=what,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=open_timeout or self._default_timeout,
            idle_timeout=min(seconds + 15, self._rhythm.patience or seconds + 15),
        )
        loop, marked_at = asyncio.get_running_loop(), None
        async with aclosing(self._transport.stream(request)) as batches:
            async for lines in batches:
                if not lines and on_open is not None:
                    on_open()
                for line in lines:
                    event = parse_frame(line, what, lambda: self.credentials.secrets)
                    if event.type == BOOKMARK:
                        if marked_at is not None:
                            self._rhythm.hear(loop.time() - marked_at)
                        marked_at = loop.time()
                    yield event

    async def stream(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        accept: str = "*/*",
    ) -> AsyncGenerator[bytes, None]:
        """Send a GET with an endless answer, such as a followed log; yield its chunks.

        The first chunk is empty and means that the answer has begun. Close the generator with
        `contextlib.aclosing` if you leave it early. The server waits while no chunk is taken. A
        silent stream is no failure; to learn whether the server is alive, send another request.

        Raises:
            ApiError: for any status of 400 or more, before the first chunk.
            TransportError: there was no answer, or the connection broke.
        """
        request = ApiRequest(
            method="GET",
            target=f"{path}?{urlencode(params)}" if params else path,
            what=f"GET {path}",
            headers={"Accept": accept, "Accept-Encoding": "identity", **(headers or {})},
            timeout=self._default_timeout,
            raw=True,
        )
        async with aclosing(self._transport.stream(request)) as batches:
            async for pieces in batches:
                yield b"".join(pieces)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> Response:
        """Send any request, for paths that are not resources: ``/version``, ``/readyz``, logs.

        Raises:
            ApiError: for any status of 400 or more.
            TransportError: there was no usable answer.
        """
        return await self._sender.send(
            ApiRequest(
                method=method,
                target=f"{path}?{urlencode(params)}" if params else path,
                what=f"{method} {path}",
                body=encode(body),
                headers=_headers(content_type if body is not None else None, accept),
                timeout=timeout or self._default_timeout,
            ),
            resource="",
            limited=True,
        )

    async def post_to_service(
        self, namespace: str, service: str, path: str, body: Any, *, timeout: float
    ) -> int:
        """Post to a Service through the proxy of the API server; return the status of its answer.

        The answer is the Service's, so it says nothing about the API server or the credentials:
        neither the limiter nor the metrics learn from it, and its warnings are not logged. Only an
        error is read, because it can be the API server's. No redirect is followed.

        Args:
            namespace: The namespace of the Service.
            service: Name and port, as in ``trainer:8080``.
            path: Begins with a slash.
            body: What is posted, as JSON.
            timeout: Seconds for the whole request.

        Raises:
            ApiError: the server or the Service answered with a status of 400 or more.
            TransportError: there was no answer.
        """
        target = f"{SERVICES.path(namespace, service, 'proxy')}{path}"
        request = ApiRequest(
            method="POST",
            target=target,
            what=f"POST {target}",
            body=encode(body),
            headers=_headers("application/json"),
            timeout=timeout,
            to_service=True,
        )
        return (await self._transport.send(request)).status

    async def _call(
        self,
        method: str,
        resource: Resource,
        namespace: str | None,
        name: str | None,
        *,
        subresource: str | None = None,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        title: str | None = None,
        decode: Callable[[bytes], T],
    ) -> T:
        path = resource.path(namespace, name, subresource)
        is_list = method == "GET" and name is None
        request = ApiRequest(
            method=method,
            target=f"{path}?{urlencode(params)}" if params else path,
            what=describe(method, resource, namespace, name or title, subresource),
            body=encode(body),
            headers=_headers(content_type if body is not None else None),
            timeout=LIST_TIMEOUT if is_list else self._default_timeout,
        )
        response = await self._sender.send(
            request, resource=resource.plural, limited=resource is not LEASES, cheap=not is_list
        )
        return read_answer(response.body, decode, request.what)

    def _log_warning(self, text: str) -> None:
        if text in self._known_warnings or len(self._known_warnings) >= MAX_KNOWN_WARNINGS:
            return
        self._known_warnings.add(text)
        import structlog  # slow, and the command line does without it

        log = structlog.get_logger(component="kube")
        log.warning("api warning", server=self.credentials.server, warning=text)


async def _collect(pages: AsyncGenerator[ObjectList[T], None]) -> ObjectList[T]:
    whole: ObjectList[T] = ObjectList([], "")
    async for page in pages:
        whole.items += page.items
        whole.resource_version = page.resource_version
    return whole


def _headers(content_type: str | None, accept: str = "application/json") -> dict[str, str]:
    return {"Accept": accept, "Content-Type": content_type} if content_type else {"Accept": accept}
