"""core/v1 ServiceAccount: the token subresource."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.embedded.server.auth import ISSUER
from multiqueue.embedded.server.authz.tokens import BOUND, ServiceAccountTokens
from multiqueue.embedded.server.causes import FieldCause, invalid
from multiqueue.embedded.server.kinds import (
    JsonObject,
    Kind,
    KindVersion,
    RequestContext,
    Subresource,
)
from multiqueue.embedded.server.schema import admit
from multiqueue.embedded.server.schema.types import schema_of
from multiqueue.embedded.server.status import StatusError, bad_request
from multiqueue.embedded.server.status import invalid as invalid_object

MIN_SECONDS, MAX_SECONDS, DEFAULT_SECONDS = 600, 2**32, 3600

_VERSION = KindVersion(name="v1", schema=schema_of("authentication.TokenRequest"))
_REQUEST = Kind(
    group="authentication.k8s.io",
    plural="tokenrequests",
    singular="tokenrequest",
    kind="TokenRequest",
    list_kind="TokenRequestList",
    namespaced=True,
    versions=(_VERSION,),
)


def _issue(
    tokens: ServiceAccountTokens, account: JsonObject, body: JsonObject, context: RequestContext
) -> JsonObject:
    """Answer a TokenRequest."""
    metadata = account["metadata"]
    spec = _spec(body, metadata["name"])
    seconds = spec.get("expirationSeconds", DEFAULT_SECONDS)
    audiences = spec.get("audiences") or [ISSUER]
    expires_at = context.now + timedelta(seconds=seconds)
    bound = _find_bound(spec.get("boundObjectRef"), metadata, context)
    token = tokens.issue(metadata, audiences, expires_at, bound)
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "creationTimestamp": format_time(context.now),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": format_time(expires_at)},
    }


def _spec(body: JsonObject, name: str) -> JsonObject:
    """The checked spec of a request.

    Raises:
        StatusError: 400 or 422.
    """
    api_version = body.get("apiVersion") or "authentication.k8s.io/v1"
    kind = body.get("kind") or _REQUEST.kind
    if (api_version, kind) != ("authentication.k8s.io/v1", _REQUEST.kind):
        raise bad_request(
            f'{kind} in version "{api_version.rpartition("/")[2]}" cannot be handled as a '
            "TokenRequest"
        )
    admitted = admit(_REQUEST, _VERSION, body)
    if admitted.bad_request is not None:
        raise bad_request(admitted.bad_request)
    given = (admitted.obj.get("metadata") or {}).get("name") or name
    if given != name:
        text = "must match the service account name if specified"
        raise invalid_object(_REQUEST, name, [invalid("metadata.name", given, text)])
    spec: JsonObject = admitted.obj.get("spec") or {}
    causes = [*admitted.causes, *_expiration_causes(spec)]
    if causes:
        raise invalid_object(_REQUEST, "", causes)
    return spec


def _expiration_causes(spec: JsonObject) -> list[FieldCause]:
    seconds = spec.get("expirationSeconds", DEFAULT_SECONDS)
    if seconds < MIN_SECONDS:
        text = "may not specify a duration less than 10 minutes"
    elif seconds > MAX_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
    else:
        return []
    return [invalid("spec.expirationSeconds", seconds, text)]


def _find_bound(
    reference: JsonObject | None, account: JsonObject, context: RequestContext
) -> tuple[str, JsonObject] | None:
    """Kind and metadata of the object that the token ends with.

    Raises:
        StatusError: 400, 404 or 409.
    """
    if not reference:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    api_version = reference.get("apiVersion", "")
    if kind not in BOUND or api_version != "v1":
        raise bad_request(f"cannot bind token to object of type {_gvk(api_version, kind)}")
    key = BOUND[kind]
    found = context.get(*key, None if kind == "Node" else account["namespace"], name)
    if found is None:
        message = f'{key[1]} "{name}" not found'
        raise StatusError(404, "NotFound", message, details={"name": name, "kind": key[1]})
    if kind == "Pod" and _account_of(found) != account["name"]:
        raise bad_request(
            f'cannot bind token for serviceaccount "{account["name"]}" to pod running with '
            "different serviceaccount name."
        )
    if reference.get("uid") and reference["uid"] != found["metadata"]["uid"]:
        message = (
            f'Operation cannot be fulfilled on {key[1]} "{name}": the UID in the bound object '
            f"reference ({reference['uid']}) does not match the UID in record. The object might "
            "have been deleted and then recreated"
        )
        raise StatusError(409, "Conflict", message, details={"name": name, "kind": key[1]})
    return kind, found["metadata"]


def _account_of(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("serviceAccountName", ""))


def _gvk(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def account_subresources(tokens: ServiceAccountTokens) -> tuple[Subresource, ...]:
    """The subresources of ServiceAccounts, whose tokens these are."""
    return (
        Subresource(
            name="token",
            kind=_REQUEST.kind,
            group=_REQUEST.group,
            version=_VERSION.name,
            verbs=("create",),
            respond=partial(_issue, tokens),
        ),
    )
