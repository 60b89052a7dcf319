"""The errors of requests to an API server.

```
KubeError
├── CredentialsError            a kubeconfig, token or certificate that cannot be used   terminal
├── TransportError              no answer: refused, reset, dropped                       retryable
│   ├── RequestTimeout          no answer in time                                        retryable
│   ├── AnswerTooLarge          more than we are willing to hold                         terminal
│   └── TlsError                the other side is not who it should be                   terminal
└── ApiError                    an answer of 400 or more, with the server's Status
    ├── Unauthorized 401  Forbidden 403  NotFound 404  Invalid 422                       terminal
    ├── Conflict 409            read again, then decide again
    ├── AlreadyExists 409       terminal
    ├── Gone 410                list again
    ├── TooManyRequests 429     retryable
    └── ServerError 5xx         retryable
``` `retryable` means: the same request may succeed later. Each message names the request, is one
printable line, and contains no credential: see `server_words`.
"""

# ruff: noqa: N818 - these are Kubernetes' own words
from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from multiqueue.kube.server_words import clean_words, cut, to_line

MAX_TEXT = 300
"""Characters kept of an error body that is not a Status, such as a proxy's HTML page."""
MAX_ERROR = 3000
"""Characters of an error's text: the server's message and the request."""
MAX_CAUSES = 100
MAX_RETRY_SECONDS = 600.0
"""Longest wait in seconds that a server may ask for; longer ones are cut to this."""


class KubeError(Exception):
    """Base of every error that this package raises on purpose."""

    retryable: ClassVar[bool] = False

    def __init__(self, text: str = "") -> None:
        super().__init__(cut(to_line(text), MAX_ERROR))


class CredentialsError(KubeError):
    """A kubeconfig, token or certificate cannot be used; the message says what to change."""


class TransportError(KubeError):
    """The request got no answer. A write may or may not have happened."""

    retryable = True


class RequestTimeout(TransportError):
    """The request got no answer in time."""


class AnswerTooLarge(TransportError):
    """An answer, an object or a collection is larger than we are willing to hold."""

    retryable = False


class TlsError(TransportError):
    """The TLS handshake failed: wrong CA, wrong name or a rejected client certificate."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of ``details.causes``: a field and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ApiError(KubeError):
    """The API server answered with an error.

    Attributes:
        status: HTTP status code.
        reason: Machine-readable reason of the Status, such as ``NotFound``.
        server_message: The server's own words.
        details: Name and kind of the object that the Status is about, and its errors; see `causes`.
        request: Verb, resource and object, such as ``PATCH workloads/status "team-a/train"``.
        retry_after: Seconds that the server asked us to wait, if it did.
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
        """The causes that the server named, in its order."""
        return tuple(Cause(**cause) for cause in self.details.get("causes") or ())


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the credentials are known but may not do this."""


class NamespaceTerminating(Forbidden):
    """403: nothing can be created, because the namespace is being deleted."""


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


_REASON = re.compile(r"[A-Za-z0-9]{1,64}")
_CAUSE_FIELDS = ("reason", "message", "field")
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
    secrets: Iterable[str] = (),
) -> ApiError:
    """Turn an error answer (a Status, or a proxy's page) into the error to raise.

    Args:
        status: HTTP status code.
        body: The body of the answer.
        request: The request in words.
        retry_after: Seconds to wait, if a header says so.
        secrets: Secrets that the server was sent and that must be redacted, see `list_secrets`.
    """
    secrets = tuple(secrets)
    parsed = body if isinstance(body, Mapping) else _parse_status(body)
    reason, details = "", {}
    if parsed is None:
        text = bytes(body).decode("utf-8", "replace")  # type: ignore[arg-type]
        message = clean_words(text, secrets, limit=MAX_TEXT)
    else:
        message = clean_words(str(parsed.get("message") or ""), secrets)
        reason = str(parsed.get("reason") or "")
        details = _clean_details(parsed.get("details"), secrets)
    if retry_after is None:
        retry_after = _seconds(details.get("retryAfterSeconds"))
    return _class_for(status, reason, details)(
        status,
        reason=reason if _REASON.fullmatch(reason) else "",
        message=message,
        details=details,
        request=request,
        retry_after=min(retry_after, MAX_RETRY_SECONDS) if retry_after is not None else None,
    )


def _clean_details(details: Any, secrets: tuple[str, ...]) -> dict[str, Any]:
    """Keep those details of a Status that callers read."""
    if not isinstance(details, Mapping):
        return {}
    kept: dict[str, Any] = {}
    for name in ("name", "group", "kind", "uid"):
        if isinstance(details.get(name), str):
            kept[name] = clean_words(details[name], secrets, limit=MAX_TEXT)
    causes = details.get("causes")
    if isinstance(causes, list):
        kept["causes"] = [
            {key: clean_words(str(cause.get(key) or ""), secrets) for key in _CAUSE_FIELDS}
            for cause in causes[:MAX_CAUSES]
            if isinstance(cause, Mapping)
        ]
    if "retryAfterSeconds" in details:
        kept["retryAfterSeconds"] = details["retryAfterSeconds"]
    return kept


def _class_for(status: int, reason: str, details: Mapping[str, Any]) -> type[ApiError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    causes = {cause["reason"] for cause in details.get("causes") or ()}
    if status == 403 and "NamespaceTerminating" in causes:
        return NamespaceTerminating
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
    """Return a positive number of seconds; 0 in the API means that none is given."""
    known = isinstance(value, int | float) and value > 0 and math.isfinite(value)
    return float(value) if known else None
