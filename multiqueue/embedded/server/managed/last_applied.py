"""From client-side to server-side apply: what ``kubectl apply`` noted in an annotation.

Only the manager ``kubectl`` is treated so, as in Kubernetes.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.managed.apply_configuration import (
    Application,
    ApplyConflictError,
    ServerSideApplied,
    apply,
)
from multiqueue.embedded.server.managed.compare import difference_of, mentioned
from multiqueue.embedded.server.managed.field_sets import EMPTY, Tree, difference
from multiqueue.embedded.server.managed.owners import Owners
from multiqueue.embedded.server.managed.updates import type_of
from multiqueue.embedded.server.managed.validation import problems

MANAGER = "kubectl"
ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def apply_after_client_side(
    application: Application, live: JsonObject, zero: JsonObject, owners: Owners, now: str
) -> ServerSideApplied:
    """Apply; values that ``kubectl apply`` set do not conflict, and its annotation follows.

    Raises:
        ApplyConflictError: nothing is applied.
    """
    try:
        applied = apply(application, live, zero, owners, now)
    except ApplyConflictError as error:
        allowed = _applied_by_client(application, live)
        remaining = {
            owner: rest
            for owner, tree in error.fields.items()
            if (rest := difference(tree, allowed))
        }
        if remaining:
            raise ApplyConflictError(remaining) from error
        applied = apply(replace(application, force=True), live, zero, owners, now)
    return ServerSideApplied(_with_annotation(applied.obj, application.config), applied.owners)


def _applied_by_client(application: Application, live: JsonObject) -> Tree:
    """Fields that have the values that ``kubectl apply`` gave them last."""
    text = _annotations(live).get(ANNOTATION)
    try:
        noted = json.loads(text) if text else None
    except ValueError:
        return EMPTY
    if not isinstance(noted, dict) or noted.get("apiVersion") != application.api_version:
        return EMPTY
    merge_type = type_of(application.kind, application.version)
    if any(problems(merge_type, noted)):
        return EMPTY
    found = difference_of(merge_type, noted, live)
    return difference(difference(mentioned(merge_type, noted), found.changed), found.removed)


def _with_annotation(obj: JsonObject, config: Mapping[str, Any]) -> JsonObject:
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    noted = dict(config)
    if ANNOTATION in _annotations(noted):
        rest = {name: each for name, each in _annotations(noted).items() if name != ANNOTATION}
        noted["metadata"] = {**noted["metadata"], "annotations": rest}
    text = orjson.dumps(noted, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    if annotations[ANNOTATION] == text:
        return obj
    metadata = {**obj["metadata"], "annotations": {**annotations, ANNOTATION: text}}
    return {**obj, "metadata": metadata}


def _annotations(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}
