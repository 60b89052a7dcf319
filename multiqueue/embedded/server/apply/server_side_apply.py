"""Server-side apply: from a request to a created or changed object."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.apply.scale import API_VERSION as SCALE_VERSION
from multiqueue.embedded.server.apply.scale import write
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.body import decode_yaml
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.causes import required
from multiqueue.embedded.server.create import create
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import JsonObject, Scale
from multiqueue.embedded.server.managed import last_applied
from multiqueue.embedded.server.managed.apply_configuration import (
    Application,
    ApplyConflictError,
    ServerSideApplied,
)
from multiqueue.embedded.server.managed.apply_configuration import apply as apply_to
from multiqueue.embedded.server.managed.merge_types import MergeType
from multiqueue.embedded.server.managed.owners import (
    MANAGED_FIELDS,
    NOBODY,
    UPDATE,
    FieldOwner,
    Owners,
)
from multiqueue.embedded.server.managed.updates import reset_fields, type_of
from multiqueue.embedded.server.managed.validation import problems
from multiqueue.embedded.server.managed.zero import zero_object
from multiqueue.embedded.server.metadata import check_update_identity
from multiqueue.embedded.server.objects import Objects
from multiqueue.embedded.server.status import (
    StatusError,
    apply_conflict,
    bad_request,
    conflict,
    invalid_options,
    not_found,
)
from multiqueue.embedded.server.target import OperationTarget
from multiqueue.embedded.server.update import Change, update

ATTEMPTS = 5
"""How often an apply starts over because the object was created or deleted meanwhile."""


@dataclass(frozen=True, slots=True)
class _Request:
    """An apply request as a function of the object's present state."""

    application: Application
    zero: JsonObject
    now: str

    def __call__(self, live: JsonObject, owners: Owners) -> ServerSideApplied:
        application, zero, now = self.application, self.zero, self.now
        try:
            if application.manager == last_applied.MANAGER:
                return last_applied.apply_after_client_side(application, live, zero, owners, now)
            return apply_to(application, live, zero, owners, now)
        except ApplyConflictError as error:
            raise _conflict(error, application.subresource) from error


async def apply(
    objects: Objects,
    call: Call,
    target: OperationTarget,
    body: bytes,
    *,
    force: bool,
    check_create: Callable[[ApiUser, OperationTarget], None],
) -> tuple[StoredObject, bool]:
    """Apply a configuration; return the object, and whether it is new.

    Args:
        objects: the objects of the server.
        call: the operation.
        target: the object.
        body: the configuration, in YAML or JSON.
        force: take fields over from other managers.
        check_create: refuses users who may not create the object.

    Raises:
        StatusError: 400, 403, 404 (a subresource), 409, 422, or what a webhook says.
    """
    if not call.field_manager:
        why = required("fieldManager", "is required for apply patch")
        raise invalid_options("PatchOptions", [why])
    config = _decode(target, body)
    application = Application(
        kind=target.kind,
        version=target.version,
        config=config,
        manager=call.field_manager,
        subresource=target.subresource,
        force=force,
        reset=reset_fields(target.version, target.subresource, builtin=target.kind.builtin),
    )
    zero = {
        "apiVersion": target.api_version,
        "kind": target.kind.kind,
        **zero_object(target.kind, target.version),
    }
    request = _Request(application, zero, format_time(call.now))
    for _ in range(ATTEMPTS):
        if target.find(objects.store) is not None:
            return await update(
                objects, call, target, Change(produce=_unused, apply=request)
            ), False
        if target.subresource:
            raise not_found(target.kind, target.name)
        try:
            check_create(call.user_info, target)
            return await _create(objects, call, target, request), True
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise  # else it came while webhooks were asked
    raise conflict(target.kind, target.name)


def _unused(_current: JsonObject) -> JsonObject:
    raise AssertionError("an apply is not a function of the object alone")


async def _create(
    objects: Objects, call: Call, target: OperationTarget, request: _Request
) -> StoredObject:
    applied = request(request.zero, NOBODY)
    metadata = dict(applied.obj.get("metadata") or {})
    obj = {**applied.obj, "metadata": metadata}
    if not metadata.get("name"):
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    check_update_identity(obj, target)
    if uid := metadata.get("uid"):
        why = (
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was "
            "found"
        )
        raise conflict(target.kind, target.name, why)
    metadata.pop("resourceVersion", None)
    return await create(objects, call, target, obj, owners=applied.owners)


def _decode(target: OperationTarget, body: bytes) -> JsonObject:
    """Return the configuration as an object of the target's kind.

    Raises:
        StatusError: 400.
    """
    config: JsonObject = decode_yaml(body) or {}
    if not isinstance(config, dict):
        raise bad_request("error decoding patch: the configuration is not an object")
    scale = target.version.scale if target.subresource == "scale" else None
    wanted = (SCALE_VERSION, "Scale") if scale else (target.api_version, target.kind.kind)
    if (config.get("apiVersion"), config.get("kind")) != wanted:
        raise bad_request(f"invalid object type: {_group_version_kind(config)}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and metadata.pop(MANAGED_FIELDS, None) is not None:
        raise bad_request("metadata.managedFields must be nil")
    if scale:
        config = _through_scale(target, scale, config)
    _check_types(target, config)
    return config


def _through_scale(target: OperationTarget, scale: Scale, config: Mapping[str, Any]) -> JsonObject:
    """Turn a configuration of a Scale into one of the scaled object."""
    replicas = (config.get("spec") or {}).get("replicas")
    if replicas is not None and (type(replicas) is not int or replicas < 0):
        raise bad_request(f"spec.replicas: Invalid value: {replicas}: should be non-negative")
    parent: JsonObject = {
        "apiVersion": target.api_version,
        "kind": target.kind.kind,
        "metadata": config.get("metadata") or {},
    }
    if replicas is not None:
        write(parent, scale.spec_replicas_path, replicas)
    return parent


def _check_types(target: OperationTarget, config: Mapping[str, Any]) -> None:
    """Refuse fields that the schema does not have.

    Deviates: the answer is 400; Kubernetes answers 500 with the same message.
    """
    merge_type: MergeType = type_of(target.kind, target.version)
    found = sorted(set(problems(merge_type, config)))
    if not found:
        return
    metadata = config.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    words = found[0] if len(found) == 1 else "errors:\n  " + "\n  ".join(found)
    raise bad_request(
        f"failed to create typed patch object ({name}; {_group_version_kind(config)}): {words}"
    )


def _group_version_kind(config: Mapping[str, Any]) -> str:
    group, _, version = str(config.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={config.get('kind') or ''}"


def _conflict(error: ApplyConflictError, subresource: str) -> StatusError:
    """Return the 409 with each conflicting field and its owner."""
    found = [(_show(each.owner, subresource), each.path) for each in error.conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, path in found
    ]
    if len(found) == 1:
        owner, path = found[0]
        message = f"Apply failed with 1 conflict: conflict with {owner}: {path}"
        return apply_conflict(message, causes)
    by_owner: dict[str, list[str]] = {}
    for owner, path in found:
        by_owner.setdefault(owner, []).append(path)
    lines = [
        line
        for owner in sorted(by_owner)
        for line in (f"conflicts with {owner}:", *(f"- {path}" for path in by_owner[owner]))
    ]
    message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return apply_conflict(message, causes)


def _show(owner: FieldOwner, subresource: str) -> str:
    who = owner.writer
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    if who.operation != UPDATE:
        return text
    return f"{text} using {SCALE_VERSION if subresource == 'scale' else who.api_version}"
