"""AdmissionReview v1: requests read into values, answers written. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from multiqueue.api.validation import FieldError, invalid_status
from multiqueue.lib.json_patch import build_json_patch

API_VERSION = "admission.k8s.io/v1"
MAX_WARNING = 256
"""The API server cuts longer warnings when there are many."""


class MalformedReviewError(ValueError):
    """A body that is no AdmissionReview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the API server asks about. ``obj`` is empty on DELETE, ``old`` on CREATE."""

    uid: str
    group: str
    kind: str
    subresource: str
    operation: str
    namespace: str
    name: str
    obj: dict[str, Any]
    old: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What we answer."""

    errors: Sequence[FieldError] = ()
    warnings: Sequence[str] = ()
    changed: Mapping[str, Any] | None = None
    """The object as it should be; None: as it is."""


def read_review(body: bytes) -> Request:
    """Read the request of an AdmissionReview.

    Raises:
        MalformedReviewError: the body is none.
    """
    try:
        review = orjson.loads(body)
        request = review["request"]
        kind = request["kind"]
        return Request(
            uid=request["uid"],
            group=kind.get("group", ""),
            kind=kind["kind"],
            subresource=request.get("subResource") or "",
            operation=request["operation"],
            namespace=request.get("namespace") or "",
            name=request.get("name") or "",
            obj=request.get("object") or {},
            old=request.get("oldObject") or {},
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedReviewError(f"not an AdmissionReview: {error}") from error


def write_review(request: Request, verdict: Verdict) -> bytes:
    """Write the answer: a refusal with a cause per error, or a patch, and warnings."""
    response: dict[str, Any] = {"uid": request.uid, "allowed": not verdict.errors}
    if verdict.errors:
        name = request.name or str((request.obj.get("metadata") or {}).get("name") or "")
        response["status"] = invalid_status(
            verdict.errors, kind=request.kind, group=request.group, name=name
        )
    elif verdict.changed is not None:
        patch = build_json_patch(request.obj, verdict.changed)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if verdict.warnings:
        response["warnings"] = [_shorten(warning) for warning in verdict.warnings]
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": API_VERSION, "response": response}
    )


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_WARNING else f"{text[: MAX_WARNING - 3]}..."
