"""The latest decisions in the forms for kubectl: a list of objects, or a Table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from multiqueue.api.names import split_key
from multiqueue.plugins.recording import Decision, dump
from multiqueue.visibility.tables import make_table

_COLUMNS = (
    ("Name", "string", "name", "Name of the Workload."),
    ("Namespace", "string", "", "Namespace of the Workload."),
    ("Dispatcher", "string", "", "Who was asked."),
    ("Profile", "string", "", "The DispatchProfile that named it."),
    ("Offered", "string", "", "The clusters that the Workload was offered to, or why to none."),
    ("Decided At", "date", "", "When that was."),
)


def write_list(decisions: Iterable[Decision], api_version: str) -> Iterator[bytes]:
    """Yield a list of objects in pieces; a recording may have tens of megabytes."""
    head = {"kind": "DispatchDecisionList", "apiVersion": api_version, "metadata": {}}
    yield orjson.dumps(head)[:-1] + b',"items":['
    for number, decision in enumerate(decisions):
        item = {
            "kind": "DispatchDecision",
            "apiVersion": api_version,
            "metadata": _metadata(decision),
            "status": dump(decision),
        }
        yield (b"," if number else b"") + orjson.dumps(item)
    yield b"]}"


def build_table(decisions: Iterable[Decision], version: str) -> dict[str, Any]:
    """Return a Table of meta.k8s.io, with the oldest decision first."""
    return make_table(_COLUMNS, [_row(decision, version) for decision in decisions], version)


def _row(decision: Decision, version: str) -> dict[str, Any]:
    metadata = _metadata(decision)
    cells = [
        metadata["name"],
        metadata["namespace"],
        decision.dispatcher,
        decision.profile,
        _describe(decision),
        decision.view.now.isoformat(timespec="seconds"),
    ]
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
    }
    return {"cells": cells, "object": partial}


def _describe(decision: Decision) -> str:
    nomination = decision.nomination
    if nomination is None:
        return f"not decided: {decision.problem}"
    if nomination.refusal:
        return f"rejected: {nomination.refusal}"
    if nomination.external:
        return "left to a controller"
    return ",".join(nomination.clusters) or "nowhere"


def _metadata(decision: Decision) -> dict[str, str]:
    namespace, name = split_key(decision.view.workload.key)
    return {"name": name, "namespace": namespace}
