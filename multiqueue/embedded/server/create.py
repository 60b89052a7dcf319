"""Create: turns a request body into a stored object."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server import crds
from multiqueue.embedded.server.admission.admission import WebhookAdmission
from multiqueue.embedded.server.admission.webhook_match import WebhookReview
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.causes import FieldCause, required
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import AdmissionRefused, JsonObject
from multiqueue.embedded.server.managed.owners import NOBODY, Owners
from multiqueue.embedded.server.managed.tracking import after_create, asked, shown
from multiqueue.embedded.server.metadata import (
    check_identity,
    check_update_identity,
    generated_name,
    stamp_new,
)
from multiqueue.embedded.server.namespaces import check_namespace
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.schema import Admitted, admit
from multiqueue.embedded.server.status import (
    already_exists,
    bad_request,
    forbidden,
    invalid,
    name_collision,
)
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.validation import validate
from multiqueue.embedded.server.versions import noted_as_admitted, to_storage

GENERATE_ATTEMPTS = 8
"""As in Kubernetes: so many names are tried before a create with generateName gives up."""


class PreparedCreation(NamedTuple):
    """A new object before webhooks see it."""

    obj: JsonObject
    admitted: Admitted
    owners: Owners


class Source(NamedTuple):
    """Where a new object comes from."""

    raw: bytes | None
    """The bytes of the body, to find duplicate fields."""
    applied: bool
    owners_of: Callable[[JsonObject], Owners]
    """From the object with its defaults to the owners of its fields."""


async def create(
    objects: Objects,
    call: Call,
    target: OperationTarget,
    body: Any,
    *,
    raw: bytes | None = None,
    owners: Owners | None = None,
) -> StoredObject:
    """Store a new object.

    Args:
        objects: the objects of the server.
        call: the operation.
        target: the collection; ``target.name`` must match the body if given.
        body: the decoded object.
        raw: its bytes, to find duplicate fields.
        owners: who owns what it says; if None, whoever calls does.

    Raises:
        StatusError: 400, 403, 404 (namespace), 409, 422, or what a webhook says.
    """
    check_namespace(objects, target)
    obj = check_identity(body, target)
    crds.check_open(objects.store, target.kind, obj["metadata"].get("name", ""))
    given = _asked(target, body) if owners is None else owners

    def owners_of(defaulted: JsonObject) -> Owners:
        return given if owners is not None else _owned_by_creator(call, target, defaulted, given)

    if obj["metadata"].get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    source = Source(raw, owners is not None, owners_of)
    prefix = obj["metadata"].get("generateName") if not obj["metadata"].get("name") else None
    for _ in range(GENERATE_ATTEMPTS):
        attempt = _named(obj, prefix)
        entry = await _create_once(objects, call, target, attempt, source)
        if entry is not None:
            return entry
        if not prefix:
            raise already_exists(target.kind, attempt["metadata"]["name"])
    raise name_collision(target.kind, prefix or "")


async def create_by_put(
    objects: Objects, call: Call, target: OperationTarget, body: Any, *, raw: bytes | None
) -> StoredObject:
    """Store what was meant to replace an object that is not there.

    Raises:
        StatusError: as :func:`create`.
    """
    obj = check_identity(body, target)
    check_update_identity(obj, target)
    obj["metadata"].pop("resourceVersion", None)
    return await create(objects, call, target, obj, raw=raw)


def _named(obj: JsonObject, prefix: str | None) -> JsonObject:
    metadata = dict(obj["metadata"])
    if isinstance(prefix, str) and prefix:
        metadata["name"] = generated_name(prefix)
    return {**obj, "metadata": metadata}


def _asked(target: OperationTarget, body: Any) -> Owners:
    return asked(body, NOBODY, kind=target.kind, version=target.version)


def _owned_by_creator(
    call: Call, target: OperationTarget, obj: JsonObject, given: Owners
) -> Owners:
    now = format_time(call.now)
    return after_create(
        target.kind, target.version, obj, owners=given, manager=call.manager, now=now
    )


async def _create_once(
    objects: Objects, call: Call, target: OperationTarget, body: JsonObject, source: Source
) -> StoredObject | None:
    """Create under the name that the object has; None: it is taken."""
    kind, version, store = target.kind, target.version, objects.store
    obj, admitted, owners = _prepared(call, target, body, source)
    name = obj["metadata"].get("name") or ""
    options = _options(call)
    review = WebhookReview(operation="CREATE", target=target, obj=obj, old=None, options=options)
    judged = objects.admission.concerns(review)
    if judged:
        obj, admitted, owners = await _mutated(
            objects.admission, call, review, PreparedCreation(obj, admitted, owners)
        )
    if causes := _causes(call, target, obj, admitted):
        raise invalid(kind, name, causes)
    if judged:
        await objects.admission.validate(call, replace(review, obj=shown(obj, owners)))
        check_namespace(objects, target)
    if kind.hooks.warnings is not None:
        for warning in kind.hooks.warnings(obj):
            call.warn(warning)
    stored = to_storage(kind, version, obj)
    if store.get(kind.key, target.namespace, stored["metadata"]["name"]) is not None:
        return None
    if call.dry_run:
        entry = store.make_entry(kind.key, stored, 0, owners)
    else:
        if kind.key == crds.KEY:
            crds.establish(objects.registry, stored, call.now)
        noted = noted_as_admitted(kind, version)
        entry = store.put(kind.key, stored, owners, noted)
    return entry


async def _mutated(
    admission: WebhookAdmission, call: Call, review: WebhookReview, before: PreparedCreation
) -> PreparedCreation:
    """What mutating webhooks make of it."""
    obj, _, owners = before
    changed = await admission.mutate(call, replace(review, obj=shown(obj, owners)))
    if changed is None:
        return before
    owners = call.owners_after_admission(changed, owners)
    target = review.target
    admitted = admit(target.kind, target.version, check_identity(changed, target))
    return PreparedCreation(admitted.obj, admitted, owners)


def _causes(
    call: Call, target: OperationTarget, obj: JsonObject, admitted: Admitted
) -> list[FieldCause]:
    if not obj["metadata"].get("name"):
        return [required("metadata.name", "name or generateName is required"), *admitted.causes]
    found = admitted.causes
    return [
        *found,
        *validate(target.kind, target.version, obj, None, call, schema_causes=found),
    ]


def _prepared(
    call: Call, target: OperationTarget, body: JsonObject, source: Source
) -> PreparedCreation:
    kind, version = target.kind, target.version
    admitted = admit(
        kind,
        version,
        body,
        field_validation=call.field_validation,
        raw=source.raw,
        applied=source.applied,
    )
    if admitted.bad_request is not None:
        raise bad_request(admitted.bad_request)
    for warning in admitted.warnings:
        call.warn(warning)
    obj = admitted.obj
    if version.has_status and not kind.builtin:
        obj.pop("status", None)
        admitted.causes = [
            cause for cause in admitted.causes if not cause.field.startswith("status")
        ]
    stamp_new(obj["metadata"], call.now, has_generation=kind.has_generation)
    owners = NOBODY
    if not admitted.causes and obj["metadata"].get("name"):
        owners = source.owners_of(obj)
        try:
            kind.hooks.prepare_create(obj, call)
        except AdmissionRefused as refusal:
            raise forbidden(kind, obj["metadata"].get("name", ""), str(refusal)) from refusal
    return PreparedCreation(obj, admitted, owners)


def _options(call: Call) -> Mapping[str, Any]:
    options: JsonObject = {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    if call.dry_run:
        options["dryRun"] = ["All"]
    if call.field_manager:
        options["fieldManager"] = call.field_manager
    return options
