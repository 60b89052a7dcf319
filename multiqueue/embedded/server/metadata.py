"""The rules of ``metadata`` that hold for every kind."""

import secrets
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.causes import FieldCause, forbidden, invalid
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.managed.owners import MANAGED_FIELDS
from multiqueue.embedded.server.status import bad_request, conflict
from multiqueue.embedded.server.target import OperationTarget

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes, as in Kubernetes: generated names spell nothing."""
SUFFIX_LENGTH = 5
MAX_GENERATED_NAME = 63

_SERVER_OWNED = (
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def check_identity(body: Any, target: OperationTarget) -> JsonObject:
    """Check that a body is an object of the endpoint's kind and namespace; the answer is a shallow
    copy with its own metadata.

    Raises:
        StatusError: 400.
    """
    if not isinstance(body, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: {type(body).__name__} is not an object"
        )
    api_version, kind = (
        body.get("apiVersion") or target.api_version,
        body.get("kind") or target.kind.kind,
    )
    if (api_version, kind) != (target.api_version, target.kind.kind):
        if kind != target.kind.kind:
            given = f"{api_version}, Kind={kind}"
            raise bad_request(
                f"{given} in the data does not match the endpoint's {target.api_version}, "
                f"Kind={target.kind.kind}"
            )
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({target.api_version})"
        )
    metadata = body.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata: Invalid value: must be an object")
    metadata = dict(metadata)
    metadata.pop(MANAGED_FIELDS, None)  # kept apart, see managed/
    if target.kind.namespaced:
        if metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
    else:
        metadata.pop("namespace", None)
    rest = {
        key: value for key, value in body.items() if key not in {"apiVersion", "kind", "metadata"}
    }
    return {
        "apiVersion": target.api_version,
        "kind": target.kind.kind,
        "metadata": metadata,
        **rest,
    }


def generated_name(prefix: str) -> str:
    """A name for ``generateName``."""
    suffix = "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))
    return prefix[: MAX_GENERATED_NAME - SUFFIX_LENGTH] + suffix


def generated_uid() -> str:
    """A uid for a new object."""
    return str(uuid.uuid4())


def stamp_new(metadata: JsonObject, now: datetime, *, has_generation: bool) -> None:
    """Give a new object what the server owns."""
    for name in (*_SERVER_OWNED, "resourceVersion", "selfLink"):
        metadata.pop(name, None)
    metadata["uid"] = generated_uid()
    metadata["creationTimestamp"] = format_time(now)
    if has_generation:
        metadata["generation"] = 1


def check_update_identity(new: JsonObject, target: OperationTarget) -> None:
    """Check that an update does not rename its object.

    Raises:
        StatusError: 400.
    """
    name = new["metadata"].setdefault("name", target.name)
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def check_uid(entry: StoredObject, target: OperationTarget, uid: Any) -> None:
    """Check that a whole object was sent for this one, and not for an earlier one of its name.

    Raises:
        StatusError: 409.
    """
    if uid and uid != entry.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {entry.uid}"
        raise conflict(target.kind, target.name, why)


def keep_server_fields(new: JsonObject, old: Mapping[str, Any]) -> None:
    """Copy what only the server may change from the old metadata to the new."""
    new_metadata, old_metadata = new["metadata"], old["metadata"]
    for name in _SERVER_OWNED:
        if name in old_metadata:
            new_metadata[name] = old_metadata[name]
        else:
            new_metadata.pop(name, None)
    new_metadata.setdefault("uid", old_metadata["uid"])
    new_metadata["resourceVersion"] = old_metadata["resourceVersion"]
    new_metadata.pop("selfLink", None)


def metadata_causes(new: JsonObject, old: Mapping[str, Any]) -> list[FieldCause]:
    """What may not change in the metadata of an existing object."""
    new_metadata, old_metadata = new["metadata"], old["metadata"]
    causes = []
    if new_metadata["uid"] != old_metadata["uid"]:
        causes.append(invalid("metadata.uid", new_metadata["uid"], "field is immutable"))
    if "deletionTimestamp" in old_metadata:
        before = old_metadata.get("finalizers") or ()
        added = [name for name in new_metadata.get("finalizers") or () if name not in before]
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            why = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{names}}}"
            )
            causes.append(forbidden("metadata.finalizers", why))
    return causes


def changed_outside_status(
    new: Mapping[str, Any], old: Mapping[str, Any], *, has_status: bool
) -> bool:
    """Whether ``metadata.generation`` grows: anything but metadata (and status, where that is a
    subresource) differs.
    """
    ignored = {"metadata", "status"} if has_status else {"metadata"}
    return any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - ignored)
