"""Handlers of requests about one object or collection: create, update, delete and reads."""

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from multiqueue.embedded.server import status
from multiqueue.embedded.server.apply.patch import APPLY_YAML, parse_patch
from multiqueue.embedded.server.apply.scale import scale_of, through_scale
from multiqueue.embedded.server.apply.server_side_apply import apply
from multiqueue.embedded.server.body import decode_object
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.causes import forbidden
from multiqueue.embedded.server.create import create, create_by_put
from multiqueue.embedded.server.delete import DeleteOptions, delete, parse_delete_options
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.handlers.watch import watch
from multiqueue.embedded.server.kinds import AdmissionRefused, JsonObject, Scale, Subresource
from multiqueue.embedded.server.lists import (
    ListAnswer,
    find_page,
    parse_revision,
    parse_selection,
)
from multiqueue.embedded.server.metadata import check_identity
from multiqueue.embedded.server.namespaces import check_mortal
from multiqueue.embedded.server.representation import show_object, show_page
from multiqueue.embedded.server.request import ServerRequest
from multiqueue.embedded.server.schema import admit
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Change, Produce, update

NO_FORCE = "may not be specified for non-apply patch"


async def get(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """GET an object."""
    wanted = parse_revision(request.query.get("resourceVersion", ""))
    store = request.objects.store
    if wanted > store.revision:
        raise status.too_large_resource_version(wanted, store.revision)
    entry = store.get(target.kind.key, target.namespace, target.name)
    if entry is None:
        raise status.not_found(target.kind, target.name)
    if target.subresource == "scale" and target.version.scale is not None:
        return _answer_scale(request, target, target.version.scale, entry)
    return request.answer(show_object(request, target, entry))


async def list_or_watch(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """GET a collection."""
    if request.flag("watch"):
        return await watch(request, target)
    store = request.objects.store
    selection = parse_selection(target, request.query)
    limit = max(request.number("limit") or 0, 0)
    page = find_page(store, selection, request.query, limit)
    return request.answer(show_page(request, target, page))


async def post(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """POST to a collection."""
    raw = await request.body()
    body = decode_object(raw, request.content_type)
    call = request.call()
    if target.kind.hooks.respond is not None:
        return _respond(request, target, body, call)
    entry = await create(
        request.objects, call, target, body, raw=raw if _may_repeat_fields(request) else None
    )
    return request.answer(show_object(request, target, entry), status=201)


async def put(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """PUT an object."""
    raw = await request.body()
    body = decode_object(raw, request.content_type)
    raw_to_check = raw if _may_repeat_fields(request) else None
    call = request.call()
    if (
        target.kind.put_creates
        and not target.subresource
        and target.find(request.objects.store) is None
    ):
        entry = await create_by_put(request.objects, call, target, body, raw=raw_to_check)
        return request.answer(show_object(request, target, entry), status=201)
    change = Change(produce=lambda _current: body, is_put=True, raw=raw_to_check)
    return await _change(request, target, change)


async def patch(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """PATCH an object."""
    if request.content_type == APPLY_YAML:
        return await _apply(request, target)
    if "force" in request.query:
        raise status.invalid_options("PatchOptions", [forbidden("force", NO_FORCE)])
    change = parse_patch(target, request.content_type, await request.body())
    return await _change(request, target, change)


async def _apply(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    call = request.call()
    entry, created = await apply(
        request.objects,
        call,
        target,
        await request.body(),
        force=request.flag("force"),
        check_create=request.entrance.check_create,
    )
    scale = target.version.scale if target.subresource == "scale" else None
    if scale is not None:
        return _answer_scale(request, target, scale, entry)
    code = 201 if created else 200
    return request.answer(show_object(request, target, entry), status=code)


async def remove(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """DELETE an object."""
    options = await _delete_options(request)
    check_mortal(target)
    outcome = await delete(request.objects, request.call(), target, options)
    if outcome.gone:
        entry = outcome.entry
        return request.answer_object(status.success(target.kind, entry.name, entry.uid))
    return request.answer(show_object(request, target, outcome.entry))


async def remove_collection(request: ServerRequest, target: OperationTarget) -> web.StreamResponse:
    """DELETE what a selection finds."""
    options = await _delete_options(request)
    selection = parse_selection(target, request.query)
    page = find_page(request.objects.store, selection, {}, 0)
    call = request.call()
    deleted: list[StoredObject] = []
    for entry in page.entries:
        single = OperationTarget(
            kind=target.kind, version=target.version, namespace=entry.namespace, name=entry.name
        )
        check_mortal(single)
        try:
            deleted.append((await delete(request.objects, call, single, options)).entry)
        except status.StatusError as error:
            if error.code != 404:
                raise
    return request.answer(
        show_page(request, target, ListAnswer(deleted, request.objects.store.revision))
    )


async def change_subresource(
    request: ServerRequest, target: OperationTarget, subresource: Subresource
) -> web.StreamResponse:
    """POST or PUT to a subresource other than status and scale."""
    body = decode_object(await request.body(), request.content_type)
    if not isinstance(body, dict):
        raise status.bad_request("the body must be an object")
    call = request.call()
    if subresource.respond is not None:
        entry = target.find(request.objects.store)
        if entry is None:
            raise status.not_found(target.kind, target.name)
        answered = subresource.respond(orjson.loads(target.raw(entry)), body, call)
        return request.answer_object(answered, status=201)
    if subresource.deletes:
        return await _evict(request, target, body, call)
    apply = subresource.apply
    if apply is None:
        raise status.method_not_allowed()

    def produce(current: JsonObject) -> JsonObject:
        try:
            return apply(current, body, call)
        except AdmissionRefused as refusal:
            raise status.forbidden(target.kind, target.name, str(refusal)) from refusal
        except ValueError as error:
            raise status.conflict(target.kind, target.name, str(error)) from error

    entry = await update(request.objects, call, target, Change(produce=produce))
    code = 201 if request.http.method == "POST" else 200
    if subresource.answer is not None:
        return request.answer_object(
            subresource.answer(orjson.loads(target.raw(entry)), body), status=code
        )
    return request.answer(show_object(request, target, entry), status=code)


async def _evict(
    request: ServerRequest, target: OperationTarget, body: Mapping[str, Any], call: Call
) -> web.StreamResponse:
    options = parse_delete_options(body.get("deleteOptions") or {}, {})
    await delete(request.objects, call, target, options)
    return request.answer_object(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201},
        status=201,
    )


async def _change(
    request: ServerRequest, target: OperationTarget, change: Change
) -> web.StreamResponse:
    scale = target.version.scale if target.subresource == "scale" else None
    if scale is not None:
        produce: Produce = through_scale(target, scale, change.produce)
        entry = await update(request.objects, request.call(), target, Change(produce=produce))
        return _answer_scale(request, target, scale, entry)
    entry = await update(request.objects, request.call(), target, change)
    return request.answer(show_object(request, target, entry))


def _answer_scale(
    request: ServerRequest, target: OperationTarget, scale: Scale, entry: StoredObject
) -> web.Response:
    return request.answer_object(scale_of(scale, orjson.loads(target.raw(entry))))


def _respond(
    request: ServerRequest, target: OperationTarget, body: Any, call: Call
) -> web.Response:
    """Answer a review; nothing is stored."""
    respond = target.kind.hooks.respond
    assert respond is not None, "only virtual kinds come here"
    obj = check_identity(body, target)
    admitted = admit(target.kind, target.version, obj, field_validation=call.field_validation)
    if admitted.bad_request is not None:
        raise status.bad_request(admitted.bad_request)
    if admitted.causes:
        raise status.invalid(target.kind, "", admitted.causes)
    return request.answer_object(respond(admitted.obj, call), status=201)


def _may_repeat_fields(request: ServerRequest) -> bool:
    """Duplicate fields are looked for in JSON only; YAML decoding keeps no trace of them."""
    return request.content_type in {"", "application/json"}


async def _delete_options(request: ServerRequest) -> DeleteOptions:
    raw = await request.body()
    body = decode_object(raw, request.content_type) if raw.strip() else {}
    options = parse_delete_options(body, request.query)
    if options.dry_run:
        request.query = {**request.query, "dryRun": "All"}
    return options
