"""Everything that can go wrong between us and an API server.

```
KubeError
├── CredentialsError            a kubeconfig, token or certificate that cannot be used   terminal
├── TransportError              no answer: refused, reset, dropped                       retryable
│   ├── RequestTimeout          no answer in time                                        retryable
│   └── TlsError                the other side is not who it should be                   terminal
└── ApiError                    an answer of 400 or more, with the server's Status
    ├── Unauthorized 401  Forbidden 403  NotFound 404  Invalid 422                       terminal
    ├── Conflict 409            read again, then decide again
    ├── AlreadyExists 409       terminal
    ├── Gone 410                list again
    ├── TooManyRequests 429     retryable
    └── ServerError 5xx         retryable
``` `retryable` means: the very same request may succeed later. Each message names the request; none
holds a credential.
"""

# ruff: noqa: N818 - these are Kubernetes' own words
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

MAX_TEXT = 300
"""Characters kept of an error body that is no Status (a proxy's HTML page, say)."""


class KubeError(Exception):
    """Base of every error that this package raises on purpose."""

    retryable: ClassVar[bool] = False


class CredentialsError(KubeError):
    """A kubeconfig, token or certificate cannot be used; the message says what to change."""


class TransportError(KubeError):
    """The request got no answer. A write may or may not have happened."""

    retryable = True


class RequestTimeout(TransportError):
    """The request got no answer in time."""


class TlsError(TransportError):
    """The TLS handshake failed: wrong CA, wrong name or a rejected client certificate."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes``: what is wrong with which field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ApiError(KubeError):
    """The API server answered with an error.

    Attributes:
        status: HTTP status code.
        reason: Machine-readable reason of the Status, such as ``NotFound``.
        server_message: The server's own words.
        details: ``details`` of the Status as it came; see `causes` for its typed part.
        request: Verb, resource and object, such as ``PATCH workloads/status "team-a/train"``.
        retry_after: Seconds that the server asked us to wait, where it did.
    """

    def __init__(  # every field is part of what callers match on
        self,
        status: int,
        *,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        request: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.server_message = message
        self.details: Mapping[str, Any] = details or {}
        self.request = request
        self.retry_after = retry_after
        words = f"{status} {reason}".strip()
        super().__init__(": ".join(part for part in (request, words, message) if part))

    @property
    def causes(self) -> tuple[Cause, ...]:
        """What the server names as causes, in its order."""
        causes = self.details.get("causes")
        if not isinstance(causes, list):
            return ()
        return tuple(
            Cause(
                reason=str(cause.get("reason") or ""),
                message=str(cause.get("message") or ""),
                field=str(cause.get("field") or ""),
            )
            for cause in causes
            if isinstance(cause, Mapping)
        )


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the credentials are known but may not do this."""


class NotFound(ApiError):
    """404: no such object, or the server does not serve this resource."""


class Conflict(ApiError):
    """409: the object changed since it was read."""


class AlreadyExists(ApiError):
    """409: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(ApiError):
    """422: the object breaks the schema or a validation rule; see `causes`."""


class TooManyRequests(ApiError):
    """429: the server sheds load; it has not begun to process the request."""

    retryable = True


class ServerError(ApiError):
    """5xx: the server, a proxy or a webhook behind it failed."""

    retryable = True


_CLASS_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def build_api_error(
    status: int,
    body: bytes | Mapping[str, Any],
    *,
    request: str = "",
    retry_after: float | None = None,
) -> ApiError:
    """Turn an error answer (a Status, or whatever a proxy sent instead) into the error to raise."""
    parsed = body if isinstance(body, Mapping) else _parse_status(body)
    if parsed is None:
        text = bytes(body[: MAX_TEXT * 4]).decode("utf-8", "replace")  # type: ignore[index]
        message, reason = " ".join(text.split())[:MAX_TEXT], ""
        details: Any = None
    else:
        message, reason = str(parsed.get("message") or ""), str(parsed.get("reason") or "")
        details = parsed.get("details")
    details = details if isinstance(details, Mapping) else {}
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    return _class_for(status, reason)(
        status,
        reason=reason,
        message=message,
        details=details,
        request=request,
        retry_after=retry_after,
    )


def _class_for(status: int, reason: str) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if status >= 500:
        return ServerError
    return _CLASS_BY_STATUS.get(status, ApiError)


def _parse_status(body: bytes) -> Mapping[str, Any] | None:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _seconds(value: Any) -> float | None:
    """Return a positive number of seconds; the API says 0 where it means nothing."""
    return float(value) if isinstance(value, int | float) and value > 0 else None
