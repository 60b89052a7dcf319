"""The recorded answers of the reference, asked of schemas, defaults and rules in process."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from multiqueue.api.config import Gates
from multiqueue.api.conversion.convert import convert
from multiqueue.api.crd import load_crds
from multiqueue.api.validation.kinds import RULES
from multiqueue.embedded.server.custom import kind_from_crd
from multiqueue.embedded.server.schema import admit

RECORDINGS = Path(__file__).parents[2] / "conformance" / "data" / "api"
KINDS = {kind.kind: kind for kind in map(kind_from_crd, load_crds())}

DEVIATIONS = {
    # Another order than coveredResources is harmless: accepted with a warning (deviation 1).
    "v1beta2/ClusterQueue/spec/resourceGroups/0/coveredResources:reversed",
    "v1beta2/ClusterQueue/spec/resourceGroups/0/flavors/0/resources:reversed",
    "v1beta2/ClusterQueue/spec/resourceGroups/0/flavors/1/resources:reversed",
}


def ask(obj: dict[str, Any]) -> dict[str, Any] | None:
    """What a server with our webhooks stores, in the version of the request; None: refused."""
    kind, version = KINDS[obj["kind"]], obj["apiVersion"].rpartition("/")[2]
    first = admit(kind, kind.version(version), obj, field_validation="Strict")
    if first.strict_errors or first.bad_request is not None:
        return None
    rules = RULES[obj["kind"]]
    hub = rules.default(convert(first.obj, "v1beta2"), gates=Gates())
    second = admit(kind, kind.version("v1beta2"), hub)
    causes = second.causes if version == "v1beta2" else first.causes
    if causes or rules.validate_create(second.obj):
        return None
    return convert(second.obj, version)


def normal(obj: dict[str, Any]) -> dict[str, Any]:
    obj = {k: v for k, v in obj.items() if k != "status"}
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    obj["metadata"] = {k: v for k, v in obj["metadata"].items() if k in kept and v}
    return obj


def test_the_recorded_answers() -> None:
    cases = json.loads((RECORDINGS / "cases.json").read_text())
    answers = {e["case"]: e for e in json.loads((RECORDINGS / "answers.json").read_text())}
    wrong = []
    for case in cases:
        name, want = case["case"], answers[case["case"]]
        if name.startswith("v1/") or name in DEVIATIONS:
            continue
        got = ask(copy.deepcopy(case["object"]))
        if (got is not None) != (want["status"] == 201) or (
            got is not None and normal(got) != normal(want["result"])
        ):
            wrong.append(name)
    assert wrong == []
