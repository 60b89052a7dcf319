"""Status bodies: what the API server answers when it does not answer with an object.

Clients parse ``reason``, ``code`` and ``details``; kubectl prints ``message``. Both follow
Kubernetes to the letter.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from multiqueue.embedded.server.causes import FieldCause, invalid_message
from multiqueue.embedded.server.causes import invalid as invalid_cause
from multiqueue.embedded.server.kinds import JsonObject, Kind

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """A request ends with this Status: raised anywhere below the handlers, answered there."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = dict(details or {})
        self.headers = dict(headers or {})

    def body(self) -> JsonObject:
        """The Status object."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(kind: Kind, name: str, uid: str) -> JsonObject:
    """The answer to a delete that removed the object at once."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_resource(kind, name), "uid": uid},
    }


def bad_request(message: str) -> StatusError:
    """The request itself is malformed."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """No bearer token, or an unknown one."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(
    kind: Kind, name: str, why: str, causes: Sequence[Mapping[str, str]] = ()
) -> StatusError:
    """Admission refuses the request."""
    details = _resource(kind, name)
    if causes:
        details["causes"] = list(causes)
    subject = f'{kind.resource} "{name}"' if name else kind.resource
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details=details)


def not_found(kind: Kind, name: str) -> StatusError:
    """The object does not exist."""
    return StatusError(
        404, "NotFound", f'{kind.resource} "{name}" not found', details=_resource(kind, name)
    )


def method_not_allowed() -> StatusError:
    """The resource exists but does not know the method."""
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def not_acceptable(accepted: Iterable[str]) -> StatusError:
    """The Accept header names no type that can be produced."""
    return StatusError(
        406, "NotAcceptable", f"only the following media types are accepted: {', '.join(accepted)}"
    )


def already_exists(kind: Kind, name: str) -> StatusError:
    """A create of a name that is taken."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{kind.resource} "{name}" already exists',
        details=_resource(kind, name),
    )


def name_collision(kind: Kind, prefix: str) -> StatusError:
    """No free name was found for a generateName; the client may try again."""
    message = (
        f'{kind.resource} "{prefix}" already exists, '
        "the server was not able to generate a unique name for the object"
    )
    return StatusError(
        409, "AlreadyExists", message, details={**_resource(kind, prefix), "retryAfterSeconds": 1}
    )


def conflict(kind: Kind, name: str, why: str = MODIFIED) -> StatusError:
    """An optimistic lock or precondition does not hold."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_resource(kind, name))


def expired(message: str) -> StatusError:
    """A resourceVersion or continue token that is older than the history."""
    return StatusError(410, "Expired", message)


def unsupported_media_type(given: str, supported: Iterable[str]) -> StatusError:
    """A body in a format that is not understood."""
    accepted = ", ".join(supported)
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {accepted}"
    )
    error = StatusError(415, "UnsupportedMediaType", message)
    if given:
        error.headers["X-Rejected-Content-Type"] = given
    return error


def invalid(kind: Kind, name: str, causes: Sequence[FieldCause]) -> StatusError:
    """Validation failed, with one cause per field."""
    details = {
        "name": name,
        **({"group": kind.group} if kind.group else {}),
        "kind": kind.kind,
        "causes": [cause.as_dict() for cause in causes],
    }
    return StatusError(
        422, "Invalid", invalid_message(kind.kind, kind.group, name, causes), details=details
    )


def revision_required(kind: Kind, name: str) -> StatusError:
    """A PUT without the resourceVersion that the kind asks for; it names the resource."""
    cause = invalid_cause("metadata.resourceVersion", 0, "must be specified for an update")
    details = {**_resource(kind, name), "causes": [cause.as_dict()]}
    message = invalid_message(kind.plural, kind.group, name, [cause])
    return StatusError(422, "Invalid", message, details=details)


def invalid_options(kind: str, causes: Sequence[FieldCause]) -> StatusError:
    """Query parameters are wrong together; ``kind`` is PatchOptions or the like."""
    group = "meta.k8s.io"
    details = {"group": group, "kind": kind, "causes": [cause.as_dict() for cause in causes]}
    return StatusError(422, "Invalid", invalid_message(kind, group, "", causes), details=details)


def apply_conflict(message: str, causes: Sequence[Mapping[str, str]]) -> StatusError:
    """Somebody else owns fields that an apply would change."""
    return StatusError(409, "Conflict", message, details={"causes": list(causes)})


def unprocessable(message: str) -> StatusError:
    """A patch that cannot be applied to the object."""
    return StatusError(422, "Invalid", message)


def internal_error(message: str) -> StatusError:
    """The server, or a webhook it depends on, failed."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def too_large_resource_version(requested: int, current: int) -> StatusError:
    """A read "not older than" a revision that does not exist yet."""
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, details={"causes": [cause], "retryAfterSeconds": 1})


def _resource(kind: Kind, name: str) -> JsonObject:
    group = {"group": kind.group} if kind.group else {}
    return {**({"name": name} if name else {}), **group, "kind": kind.plural}
