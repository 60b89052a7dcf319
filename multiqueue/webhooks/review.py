"""AdmissionReview v1: reads requests and writes answers. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api.validation.field_error import FieldError, refused_status
from multiqueue.lib.bounded_json import MAX_CONTAINERS, JsonError, load
from multiqueue.lib.json_patch import build_json_patch

API_VERSION = "admission.k8s.io/v1"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
MAX_WARNING = 256
"""The API server cuts longer warnings when there are many."""


class MalformedReviewError(ValueError):
    """A body that is no review, or whose object is unusable.

    Attributes:
        uid: The request's uid, if it has one; then the API server can be told the reason.
    """

    def __init__(self, message: str, *, uid: str = "") -> None:
        super().__init__(message)
        self.uid = uid


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """A request of the API server. ``obj`` is empty on DELETE, ``old`` on CREATE."""

    uid: str
    group: str
    kind: str
    subresource: str
    operation: str
    namespace: str
    name: str
    obj: dict[str, Any]
    old: dict[str, Any]
    user: str = ""
    """Who asked, as the API server has authenticated them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewVerdict:
    """The answer to a request."""

    errors: Sequence[FieldError] = ()
    warnings: Sequence[str] = ()
    changed: Mapping[str, Any] | None = None
    """The changed object; None: no change."""


def read_review(body: bytes) -> ReviewRequest:
    """Read the request of an AdmissionReview.

    Raises:
        MalformedReviewError: the body is no review; with a uid if only its object is unusable.
    """
    request = open_review(body, "AdmissionReview", API_VERSION)
    uid, kind = request["uid"], request.get("kind")
    if not isinstance(kind, dict) or not isinstance(kind.get("kind"), str):
        raise MalformedReviewError("request.kind.kind: must be a text", uid=uid)
    operation = _text(request, "operation")
    if operation not in OPERATIONS:
        raise MalformedReviewError(f"request.operation: must be one of {OPERATIONS}", uid=uid)
    return ReviewRequest(
        uid=uid,
        group=_text({"uid": uid, **kind}, "group"),
        kind=kind["kind"],
        subresource=_text(request, "subResource"),
        operation=operation,
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        obj=_object(request, "object"),
        old=_object(request, "oldObject"),
        user=_user(request),
    )


def open_review(
    body: bytes, kind: str, api_version: str, *, max_containers: int = MAX_CONTAINERS
) -> dict[str, Any]:
    """Return the request of a review of some kind; its ``uid`` is a string.

    Raises:
        MalformedReviewError: the body is no such review.
    """
    try:
        review = load(body, max_containers=max_containers)
    except JsonError as error:
        raise MalformedReviewError(f"no {kind}: {error}") from None
    if not isinstance(review, dict):
        raise MalformedReviewError(f"no {kind}: it must be a mapping")
    if review.get("kind") != kind or review.get("apiVersion") != api_version:
        raise MalformedReviewError(f"no {kind} of {api_version}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise MalformedReviewError(f"no {kind}: request: must be a mapping")
    if not isinstance(request.get("uid"), str) or not request["uid"]:
        raise MalformedReviewError(f"no {kind}: request.uid: must be a text")
    return request


def _text(request: Mapping[str, Any], field: str) -> str:
    value = request.get(field)
    if value is not None and not isinstance(value, str):
        raise MalformedReviewError(f"request.{field}: must be a text", uid=request["uid"])
    return value or ""


def _user(request: Mapping[str, Any]) -> str:
    info = request.get("userInfo")
    name = info.get("username") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def _object(request: Mapping[str, Any], field: str) -> dict[str, Any]:
    value = request.get(field)
    if value is not None and not isinstance(value, dict):
        raise MalformedReviewError(f"request.{field}: must be a mapping", uid=request["uid"])
    return value or {}


def write_refusal(error: MalformedReviewError) -> bytes:
    """Return the answer to an invalid request whose uid is known."""
    status = {"status": "Failure", "reason": "BadRequest", "code": 400, "message": str(error)}
    return _write({"uid": error.uid, "allowed": False, "status": status})


def write_postponement(request: ReviewRequest, status: Mapping[str, Any] | None) -> bytes:
    """Return the answer that refuses with this metav1.Status, or allows if there is none."""
    if status is None:
        return _write({"uid": request.uid, "allowed": True})
    return _write({"uid": request.uid, "allowed": False, "status": status})


def write_review(request: ReviewRequest, verdict: ReviewVerdict) -> bytes:
    """Return the answer: a refusal with a cause per error, or a patch, and warnings."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not verdict.errors}
    if verdict.errors:
        response["status"] = refused_status(verdict.errors)
    elif verdict.changed is not None:
        patch = build_json_patch(request.obj, verdict.changed)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if verdict.warnings:
        response["warnings"] = [_shorten(warning) for warning in verdict.warnings]
    return _write(response)


def _write(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": API_VERSION, "response": response}
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_WARNING else f"{text[: MAX_WARNING - 3]}..."
