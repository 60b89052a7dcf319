"""Refusals of the visibility API, each exactly a Kubernetes Status."""

from __future__ import annotations

from typing import Any

from multiqueue.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unauthorized

GROUP = "visibility.kueue.x-k8s.io"


class StatusRefusal(Exception):  # noqa: N818 - an answer, not a failure
    """The request is answered with this Status."""

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
    """Refuse a query parameter that cannot be understood."""
    return StatusRefusal(400, "BadRequest", message)


def unauthorized() -> StatusRefusal:
    """Refuse credentials that no authentication method knows."""
    return StatusRefusal(401, "Unauthorized", "Unauthorized")


def queue_not_found(singular: str, name: str) -> StatusRefusal:
    """Say that there is no such queue. Upstream names the singular, so tools may look for it."""
    details = {"name": name, "group": GROUP, "kind": singular}
    return StatusRefusal(404, "NotFound", f'{singular}.{GROUP} "{name}" not found', details)


def workload_not_found(name: str) -> StatusRefusal:
    """Say that there is no such Workload."""
    details = {"name": name, "group": "kueue.x-k8s.io", "kind": "workloads"}
    message = f'workloads.kueue.x-k8s.io "{name}" not found'
    return StatusRefusal(404, "NotFound", message, details)


def not_on_a_worker(key: str) -> StatusRefusal:
    """Say that the Workload waits, or runs on this cluster."""
    message = f'Workload "{key}" is on no worker: it waits, or runs on this cluster'
    return StatusRefusal(409, "Conflict", message)


def moved(key: str, cluster: str) -> StatusRefusal:
    """Say that the Workload is on another worker than the one in the request."""
    return StatusRefusal(409, "Conflict", f'Workload "{key}" is on cluster "{cluster}"')


def copy_not_found(key: str, cluster: str) -> StatusRefusal:
    """Say that the job is not on the worker that the latch names: not yet, or not any more."""
    message = f'cluster "{cluster}" has no job of Workload "{key}": not yet, or not any more'
    return StatusRefusal(404, "NotFound", message)


def by_worker(cluster: str, what: str, error: KubeError) -> StatusRefusal:
    """Say that a worker did not answer the request."""
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
    """Say that the Workload exists, but no dispatcher was asked about it yet."""
    message = (
        f'nothing was decided about Workload "{key}" since this manager leads: it waits for quota '
        "or for other checks, runs on this cluster, or was dispatched before"
    )
    return StatusRefusal(404, "NotFound", message)


def not_leading() -> StatusRefusal:
    """Say that another manager leads."""
    message = "this manager does not lead and decides nothing; ask again to find the one that does"
    return StatusRefusal(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})


def invalid(message: str) -> StatusRefusal:
    """Refuse a request whose form is right, but not its content."""
    return StatusRefusal(422, "Invalid", message)


def no_such_path() -> StatusRefusal:
    """Say that nothing is served at this path."""
    return StatusRefusal(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> StatusRefusal:
    """Say that the method is not allowed; this API is read-only."""
    message = "the server does not allow this method on the requested resource"
    return StatusRefusal(405, "MethodNotAllowed", message)


def not_acceptable() -> StatusRefusal:
    """Say that no media type in the Accept header can be produced."""
    message = "only the following media types are accepted: application/json"
    return StatusRefusal(406, "NotAcceptable", message)


def too_many_requests() -> StatusRefusal:
    """Refuse a request above the limit of concurrent answers."""
    message = "too many requests, please try again later"
    return StatusRefusal(429, "TooManyRequests", message, {"retryAfterSeconds": 1})


def body_not_in_time(seconds: float) -> StatusRefusal:
    """Say that the rest of the request did not arrive in time."""
    return StatusRefusal(408, "Timeout", f"the body did not arrive within {seconds:g} s")


def body_too_large(limit: int) -> StatusRefusal:
    """Refuse a body that is longer than any valid request."""
    message = f"Request entity too large: limit is {limit}"
    return StatusRefusal(413, "RequestEntityTooLarge", message)


def not_answered_in_time(seconds: float) -> StatusRefusal:
    """Say that the answer took too long, or that the client does not read it."""
    return StatusRefusal(504, "Timeout", f"there was no answer within {seconds:g} s")


def cannot_review(what: str) -> StatusRefusal:
    """Say that the API server cannot review users or rights."""
    message = f"Internal error occurred: {what}"
    return StatusRefusal(500, "InternalError", message, {"causes": [{"message": what}]})
