"""What the visibility API answers instead of a list: Kubernetes' Status, to the letter."""

from __future__ import annotations

from typing import Any

from multiqueue.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized

GROUP = "visibility.kueue.x-k8s.io"


class StatusRefusal(Exception):  # noqa: N818 - an answer, not a failure
    """A request ends with this Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
        }
        if self.details:
            status["details"] = self.details
        return {**status, "code": self.code}


def bad_request(message: str) -> StatusRefusal:
    """A query parameter cannot be understood."""
    return StatusRefusal(400, "BadRequest", message)


def unauthorized() -> StatusRefusal:
    """Credentials were shown, and nobody knows them."""
    return StatusRefusal(401, "Unauthorized", "Unauthorized")


def queue_not_found(singular: str, name: str) -> StatusRefusal:
    """No such queue. Upstream names the singular here, so tools may look for it."""
    details = {"name": name, "group": GROUP, "kind": singular}
    return StatusRefusal(404, "NotFound", f'{singular}.{GROUP} "{name}" not found', details)


def workload_not_found(name: str) -> StatusRefusal:
    """No such Workload."""
    details = {"name": name, "group": "kueue.x-k8s.io", "kind": "workloads"}
    message = f'workloads.kueue.x-k8s.io "{name}" not found'
    return StatusRefusal(404, "NotFound", message, details)


def not_on_a_worker(key: str) -> StatusRefusal:
    """It waits, or runs on this cluster."""
    message = f'Workload "{key}" is on no worker: it waits, or runs on this cluster'
    return StatusRefusal(409, "Conflict", message)


def moved(key: str, cluster: str) -> StatusRefusal:
    """It is on another worker than the one that is asked about."""
    return StatusRefusal(409, "Conflict", f'Workload "{key}" is on cluster "{cluster}"')


def copy_not_found(key: str, cluster: str) -> StatusRefusal:
    """The latch names a worker, but the job is not there: not yet, or not any more."""
    message = f'cluster "{cluster}" has no job of Workload "{key}": not yet, or not any more'
    return StatusRefusal(404, "NotFound", message)


def by_worker(cluster: str, what: str, error: KubeError) -> StatusRefusal:
    """A worker did not give what it was asked for."""
    details = {"name": cluster, "group": "kueue.x-k8s.io", "kind": "multikueueclusters"}
    if isinstance(error, Forbidden | Unauthorized):
        message = (
            f'cluster "{cluster}" does not let the manager read {what}: {error}; apply '
            "config/worker-role-pods there"
        )
        return StatusRefusal(403, "Forbidden", message, details)
    if isinstance(error, NotFound):
        return StatusRefusal(
            404, "NotFound", f'cluster "{cluster}": {error.server_message}', details
        )
    if isinstance(error, ApiError) and 400 <= error.status < 500:
        return StatusRefusal(
            error.status, error.reason or "BadRequest", error.server_message, details
        )
    message = f'cluster "{cluster}" cannot be reached: {error}'
    return StatusRefusal(503, "ServiceUnavailable", message, details)


def not_decided(key: str) -> StatusRefusal:
    """The Workload is known, but no dispatcher was asked about it."""
    message = (
        f'nothing was decided about Workload "{key}" since this manager leads: it waits for quota '
        "or for other checks, runs on this cluster, or was dispatched before"
    )
    return StatusRefusal(404, "NotFound", message)


def not_leading() -> StatusRefusal:
    """Another manager decides."""
    message = "this manager does not lead and decides nothing; ask again to find the one that does"
    return StatusRefusal(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})


def invalid(message: str) -> StatusRefusal:
    """What was sent was understood, and makes no sense."""
    return StatusRefusal(422, "Invalid", message)


def no_such_path() -> StatusRefusal:
    """Nothing is served there."""
    return StatusRefusal(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> StatusRefusal:
    """Everything here is for reading."""
    message = "the server does not allow this method on the requested resource"
    return StatusRefusal(405, "MethodNotAllowed", message)


def not_acceptable() -> StatusRefusal:
    """The Accept header names nothing that we can produce."""
    message = "only the following media types are accepted: application/json"
    return StatusRefusal(406, "NotAcceptable", message)


def too_many_requests() -> StatusRefusal:
    """More are being answered than we want to at a time."""
    message = "too many requests, please try again later"
    return StatusRefusal(429, "TooManyRequests", message, {"retryAfterSeconds": 1})


def body_not_in_time(seconds: float) -> StatusRefusal:
    """The rest of the request does not come."""
    return StatusRefusal(408, "Timeout", f"the body did not arrive within {seconds:g} s")


def body_too_large(limit: int) -> StatusRefusal:
    """What was sent is longer than anything that is understood."""
    message = f"Request entity too large: limit is {limit}"
    return StatusRefusal(413, "RequestEntityTooLarge", message)


def not_answered_in_time(seconds: float) -> StatusRefusal:
    """It takes too long, or who asks does not read."""
    return StatusRefusal(504, "Timeout", f"there was no answer within {seconds:g} s")


def cannot_review(what: str) -> StatusRefusal:
    """The API server that knows users and their rights cannot be asked."""
    message = f"Internal error occurred: {what}"
    return StatusRefusal(500, "InternalError", message, {"causes": [{"message": what}]})
