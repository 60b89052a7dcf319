"""Representations of objects in answers: whole, as a Table, or only their metadata."""

from collections.abc import Iterable
from typing import Any, cast

import orjson

from multiqueue.embedded.server import table
from multiqueue.embedded.server.entry import StoredObject, bare_in, with_owners
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.lists import ListAnswer
from multiqueue.embedded.server.request import ServerRequest
from multiqueue.embedded.server.status import bad_request
from multiqueue.embedded.server.target import OperationTarget

INCLUDES = ("None", "Metadata", "Object")


def show_object(request: ServerRequest, target: OperationTarget, entry: StoredObject) -> bytes:
    """One object in the wanted form."""
    form = request.wanted
    if form == "Object":
        return target.raw(entry)
    if form == "Table":
        return _table(request, target, [entry], None)
    return orjson.dumps(_metadata_only(target.raw(entry)))


def show_page(request: ServerRequest, target: OperationTarget, page: ListAnswer) -> bytes:
    """A list in the wanted form."""
    form, metadata = request.wanted, page.metadata()
    if form == "Table":
        return _table(request, target, page.entries, metadata)
    if form == "Object":
        items = b",".join(_listed(target, entry) for entry in page.entries)
        head = {
            "kind": target.kind.list_kind,
            "apiVersion": target.api_version,
            "metadata": metadata,
        }
        return orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}"
    rows = [_metadata_only(target.raw(entry)) for entry in page.entries]
    return orjson.dumps(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": rows,
        }
    )


def _listed(target: OperationTarget, entry: StoredObject) -> bytes:
    """An object's JSON that nobody else asks for at the same time: not kept for others."""
    return with_owners(bare_in(target.kind, target.version, entry), entry.managed)


def show_in_watch(
    request: ServerRequest, target: OperationTarget, entry: StoredObject, *, first: bool
) -> bytes:
    """One object as the ``object`` of a watch frame."""
    if request.wanted == "Table":
        return _table(request, target, [entry], None, with_columns=first)
    return show_object(request, target, entry)


def _table(
    request: ServerRequest,
    target: OperationTarget,
    entries: Iterable[StoredObject],
    list_metadata: JsonObject | None,
    *,
    with_columns: bool = True,
) -> bytes:
    include = request.query.get("includeObject") or "Metadata"
    if include not in INCLUDES:
        raise bad_request(f'unrecognized includeObject value: "{include}"')
    rendered = table.render(
        target.version,
        (orjson.loads(target.raw(entry)) for entry in entries),
        now=request.objects.clock.now(),
        include_object=cast("table.IncludeObject", include),
        list_metadata=list_metadata,
        with_columns=with_columns,
    )
    return orjson.dumps(rendered)


def _metadata_only(raw: bytes) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": orjson.loads(raw)["metadata"],
    }
