"""Update: replace or patch an object, or its status."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server import crds
from multiqueue.embedded.server.admission.webhook_match import WebhookReview
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.delete import is_finished
from multiqueue.embedded.server.entry import StoredObject, decode_bare_in, decode_in
from multiqueue.embedded.server.kinds import AdmissionRefused, JsonObject
from multiqueue.embedded.server.managed.apply_configuration import ServerSideApplied
from multiqueue.embedded.server.managed.owners import Owners, same_fields
from multiqueue.embedded.server.managed.tracking import after_change, asked, shown
from multiqueue.embedded.server.managed.updates import States, reset_fields
from multiqueue.embedded.server.metadata import (
    changed_outside_status,
    check_identity,
    check_uid,
    check_update_identity,
    keep_server_fields,
    metadata_causes,
)
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.schema import Admitted, admit
from multiqueue.embedded.server.status import (
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
    revision_required,
)
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.validation import validate
from multiqueue.embedded.server.versions import noted_as_admitted, to_storage

STATUS = "status"
ATTEMPTS = 5
"""How often an update without a resourceVersion starts over because the object changed while
webhooks were asked.
"""

Produce = Callable[[JsonObject], Any]
"""From the current object, in the version of the request, to the wanted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How an update comes about."""

    produce: Produce
    is_put: bool = False
    """A whole object was sent: its uid is a precondition, and some kinds want a resourceVersion."""
    raw: bytes | None = None
    """The bytes of a sent object, to find duplicate fields."""
    mutates: bool = True
    """``produce`` changes what it is given; if not, it is spared a copy of its own."""
    apply: Callable[[JsonObject, Owners], ServerSideApplied] | None = None
    """Instead of ``produce``: it decides who owns what, too."""


class PreparedUpdate(NamedTuple):
    """The wanted state before webhooks see it."""

    obj: JsonObject
    admitted: Admitted
    owners: Owners


async def update(
    objects: Objects, call: Call, target: OperationTarget, change: Change
) -> StoredObject:
    """Change an object; ``target.subresource`` is "" or "status" (others change it like "").

    Raises:
        StatusError: 400, 403, 404, 409, 422, or what a webhook says.
    """
    for _ in range(ATTEMPTS):
        entry = target.find(objects.store)
        if entry is None:
            raise not_found(target.kind, target.name)
        outcome = await _update_once(objects, call, target, change, entry)
        if outcome is not None:
            return outcome
    raise conflict(target.kind, target.name)


async def _update_once(
    objects: Objects, call: Call, target: OperationTarget, change: Change, entry: StoredObject
) -> StoredObject | None:
    """Apply the change to one state of the object; None: the object changed meanwhile."""
    kind, version, admission = target.kind, target.version, objects.admission
    old = decode_bare_in(kind, version, entry)
    new, admitted, owners = _prepared(call, target, change, entry, old)
    review = WebhookReview(
        operation="UPDATE", target=target, obj=new, old=old, options=_options(call)
    )
    judged = admission.concerns(review)
    if judged:
        review = replace(review, obj=shown(new, owners), old=shown(old, entry.managed))
        if (changed := await admission.mutate(call, review)) is not None:
            owners = call.owners_after_admission(changed, owners)
            admitted = admit(kind, version, check_identity(changed, target))
            new = _owned_by_server(target, admitted.obj, old)
    if causes := _causes(call, target, new, old, admitted.causes):
        raise invalid(kind, target.name, causes)
    if judged:
        await admission.validate(call, replace(review, obj=shown(new, owners)))
    return _commit(objects, call, target, entry, old, PreparedUpdate(new, admitted, owners))


def _prepared(
    call: Call, target: OperationTarget, change: Change, entry: StoredObject, old: JsonObject
) -> PreparedUpdate:
    kind, version = target.kind, target.version
    produced, owners = _produced(target, change, entry, old)
    body = check_identity(produced, target)
    check_update_identity(body, target)
    metadata = body["metadata"]
    _check_lock(target, change, entry, metadata)
    if target.subresource == STATUS:
        body = _with_new_status(target, body, old)
    elif version.has_status and not _is_action(target):
        body.pop(STATUS, None)
        if STATUS in old:
            body[STATUS] = old[STATUS]
    admitted = admit(
        kind,
        version,
        body,
        field_validation=call.field_validation,
        raw=change.raw,
        applied=change.apply is not None,
        known=old if entry.admitted is version else None,
    )
    if admitted.bad_request is not None:
        raise bad_request(admitted.bad_request)
    for warning in admitted.warnings:
        call.warn(warning)
    new = admitted.obj
    keep_server_fields(new, old)
    if not admitted.causes and not _is_action(target):
        if change.apply is None:
            owners = _owners_after(call, target, old, new, owners)
        prepare = (
            kind.hooks.prepare_status if target.subresource == STATUS else kind.hooks.prepare_update
        )
        try:
            prepare(new, old, call)
        except AdmissionRefused as refusal:
            raise forbidden(kind, target.name, str(refusal)) from refusal
    return PreparedUpdate(_owned_by_server(target, new, old), admitted, owners)


def _produced(
    target: OperationTarget, change: Change, entry: StoredObject, old: JsonObject
) -> tuple[Any, Owners]:
    """The wanted object, and who owns the fields of the current one (after an apply: of the wanted
    one).
    """
    if change.apply is not None:
        applied = change.apply(old, entry.managed)
        return applied.obj, applied.owners
    current = decode_in(target.kind, target.version, entry) if change.mutates else old
    produced = change.produce(current)
    if target.subresource:
        return produced, entry.managed
    kind, version = target.kind, target.version
    return produced, asked(produced, entry.managed, kind=kind, version=version)


def _owners_after(
    call: Call, target: OperationTarget, old: JsonObject, new: JsonObject, owners: Owners
) -> Owners:
    kind, version = target.kind, target.version
    reset = reset_fields(version, target.subresource, builtin=kind.builtin)
    return after_change(
        States(kind, version, old=old, new=new, reset=reset),
        owners=owners,
        manager=call.manager,
        subresource=target.subresource,
        now=format_time(call.now),
    )


def _check_lock(
    target: OperationTarget, change: Change, entry: StoredObject, metadata: JsonObject
) -> None:
    """Optimistic concurrency: the resourceVersion, and the uid of a whole object, must be the
    current ones.
    """
    revision = metadata.get("resourceVersion")
    if change.is_put:
        check_uid(entry, target, metadata.get("uid"))
        if not revision and target.kind.put_needs_revision:
            raise revision_required(target.kind, target.name)
    if revision and str(revision) != str(entry.revision):
        raise conflict(target.kind, target.name)


def _with_new_status(target: OperationTarget, body: JsonObject, old: JsonObject) -> JsonObject:
    """The old object with the new status; built-in kinds also take labels and annotations along."""
    metadata = (
        body["metadata"]
        if target.kind.builtin
        else {
            **old["metadata"],
            **({"uid": body["metadata"]["uid"]} if body["metadata"].get("uid") else {}),
        }
    )
    combined = {**old, "metadata": dict(metadata)}
    combined.pop(STATUS, None)
    if STATUS in body:
        combined[STATUS] = body[STATUS]
    return combined


def _owned_by_server(target: OperationTarget, new: JsonObject, old: JsonObject) -> JsonObject:
    keep_server_fields(new, old)
    if (
        target.kind.has_generation
        and target.subresource != STATUS
        and not _is_action(target)
        and changed_outside_status(new, old, has_status=target.version.has_status)
    ):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return new


def _causes(
    call: Call,
    target: OperationTarget,
    new: JsonObject,
    old: JsonObject,
    schema_causes: list[FieldCause],
) -> list[FieldCause]:
    causes = [*schema_causes, *metadata_causes(new, old)]
    if _is_action(target):
        return causes
    is_status = target.subresource == STATUS
    kind, version = target.kind, target.version
    found = validate(
        kind, version, new, old, call, schema_causes=schema_causes, is_status=is_status
    )
    return causes + [cause for cause in found if cause not in causes]


def _commit(  # noqa: PLR0917 - the two states of one object, and the context
    objects: Objects,
    call: Call,
    target: OperationTarget,
    entry: StoredObject,
    old: JsonObject,
    prepared: PreparedUpdate,
) -> StoredObject | None:
    new, _, owners = prepared
    kind, version, store = target.kind, target.version, objects.store
    stored = to_storage(kind, version, new)
    if target.find(objects.store) is not entry:
        return None
    if kind.hooks.warnings is not None and target.subresource != STATUS:
        for warning in kind.hooks.warnings(new):
            call.warn(warning)
    before = old if version.storage else entry.decode_bare()
    if stored == before and same_fields(owners, entry.managed):
        return entry
    if call.dry_run:
        return store.make_entry(kind.key, stored, entry.revision, owners)
    if kind.key == crds.KEY:
        crds.establish(objects.registry, stored, call.now)
    if is_finished(stored):
        last = store.remove(entry, stored, owners)
    else:
        noted = noted_as_admitted(kind, version)
        last = store.put(kind.key, stored, owners, noted)
    return last


def _is_action(target: OperationTarget) -> bool:
    """Whether a subresource such as ``pods/binding`` changes the object by a rule of its own, not
    as a user may.
    """
    return target.subresource not in ("", STATUS, "scale")


def _options(call: Call) -> JsonObject:
    options: JsonObject = {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}
    if call.dry_run:
        options["dryRun"] = ["All"]
    if call.field_manager:
        options["fieldManager"] = call.field_manager
    return options
