"""What the visibility API answers instead of a list: Kubernetes' Status, to the letter."""

from __future__ import annotations

from typing import Any

GROUP = "visibility.kueue.x-k8s.io"


class Refusal(Exception):  # noqa: N818 - an answer, not a failure
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


def bad_request(message: str) -> Refusal:
    """A query parameter cannot be understood."""
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    """Credentials were shown, and nobody knows them."""
    return Refusal(401, "Unauthorized", "Unauthorized")


def queue_not_found(singular: str, name: str) -> Refusal:
    """No such queue. Upstream names the singular here, so tools may look for it."""
    details = {"name": name, "group": GROUP, "kind": singular}
    return Refusal(404, "NotFound", f'{singular}.{GROUP} "{name}" not found', details)


def method_not_allowed() -> Refusal:
    """Everything here is for reading."""
    message = "the server does not allow this method on the requested resource"
    return Refusal(405, "MethodNotAllowed", message)


def not_acceptable() -> Refusal:
    """The Accept header names nothing that we can produce."""
    message = "only the following media types are accepted: application/json"
    return Refusal(406, "NotAcceptable", message)


def too_many_requests() -> Refusal:
    """More are being answered than we want to at a time."""
    message = "too many requests, please try again later"
    return Refusal(429, "TooManyRequests", message, {"retryAfterSeconds": 1})


def cannot_review(what: str) -> Refusal:
    """The API server that knows users and their rights cannot be asked."""
    message = f"Internal error occurred: {what}"
    return Refusal(500, "InternalError", message, {"causes": [{"message": what}]})
