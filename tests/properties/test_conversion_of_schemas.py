"""Objects of all kinds, with all fields of their schemas and some more, come back as they were.

What changes its spelling for good does so in the reference too: quantities, words that v1beta1 had
for others, empty texts for defaults, the plain list of checks, a class without a source.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.api.conversion.convert import convert
from multiqueue.api.topology_encoding import expand_domains
from multiqueue.lib.quantity import parse_quantity
from tests.properties.schema_objects import KINDS, UNKNOWN_NAMES, make_object

Object = dict[str, Any]
OTHER = {"v1beta1": "v1beta2", "v1beta2": "v1beta1"}
QUANTITIES = {"nominalQuota", "borrowingLimit", "lendingLimit", "weight"}
WORDS = {
    ("queueingStrategy", ""): "BestEffortFIFO",
    ("stopPolicy", ""): "None",
    ("whenCanBorrow", ""): "MayStopSearch",
    ("whenCanBorrow", "Borrow"): "MayStopSearch",
    ("whenCanPreempt", ""): "TryNextFlavor",
    ("whenCanPreempt", "Preempt"): "MayStopSearch",
    ("reclaimWithinCohort", ""): "Never",
    ("withinClusterQueue", ""): "Never",
    ("policy", ""): "Never",
}
NO_LOCATION = {"location": "", "locationType": ""}


def meaning(obj: Object) -> Object:
    """The object in the one spelling that all of its spellings have."""
    result = respelled(copy.deepcopy(obj))
    kind, version = obj["kind"], obj["apiVersion"].rpartition("/")[2]
    result["metadata"].pop("annotations", None)
    spec = result.setdefault("spec", {})
    if version == "v1beta1" and kind in OLD_FIELDS:
        OLD_FIELDS[kind](spec)
    if kind == "Workload":
        if not spec:
            spec["active"] = True
        complete_templates(spec)
        admission = (result.get("status") or {}).get("admission") or {}
        for assignment in admission.get("podSetAssignments") or ():
            spell_out(assignment)
    if kind == "MultiKueueCluster" and not spec.get("clusterSource"):
        spec.pop("clusterSource", None)
    return result


def respelled(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: respelled(each, "nominalQuota" if name in QUANTITY_MAPS else key)
            for key, each in value.items()
            if key not in UNKNOWN_NAMES and each is not None and not says_nothing(key, each)
        }
    if isinstance(value, list):
        return [respelled(each, name) for each in value]
    if name in QUANTITIES and isinstance(value, int | str):
        return str(parse_quantity(value))
    return WORDS.get((name, value), value) if isinstance(value, str) else value


QUANTITY_MAPS = {"limits", "overhead", "requests", "resourceUsage"}
LEFT_OUT = {"admissionChecks", "matchExpressions", "matchLabels", "onFlavors", "resourceGroups"}


def says_nothing(name: str, value: Any) -> bool:
    """What Go leaves out of the old version: lists and maps without content."""
    return name in LEFT_OUT and value in ([], {})


def old_cluster_queue(spec: Object) -> None:
    checks = spec.pop("admissionChecks", None)
    strategy = spec.get("admissionChecksStrategy") or {}
    if checks:
        rules = [{"name": name} for name in checks]
        spec["admissionChecksStrategy"] = {**strategy, "admissionChecks": rules}


def old_workload(spec: Object) -> None:
    if not spec.get("priorityClassSource"):
        spec.pop("priorityClassName", None)
        spec.pop("priorityClassSource", None)
    if spec.get("priorityClassName") == "":
        del spec["priorityClassName"]


def old_admission_check(spec: Object) -> None:
    spec.setdefault("retryDelayMinutes", 15)


def old_multikueue_cluster(spec: Object) -> None:
    kube_config = spec.get("kubeConfig") or NO_LOCATION
    spec["kubeConfig"] = kube_config if kube_config.get("location") else NO_LOCATION


OLD_FIELDS: dict[str, Callable[[Object], None]] = {
    "AdmissionCheck": old_admission_check,
    "ClusterQueue": old_cluster_queue,
    "MultiKueueCluster": old_multikueue_cluster,
    "Workload": old_workload,
}


def complete_templates(spec: Object) -> None:
    for pod_set in spec.get("podSets") or ():
        template = pod_set.get("template")
        if template is not None:
            template.setdefault("metadata", {})
            pod = template.setdefault("spec", {})
            for field in ("containers", "initContainers"):
                for container in pod.get(field) or ():
                    container.setdefault("resources", {})


def spell_out(assignment: Object) -> None:
    """One list of domains for all the ways to write it; what is no such list stays."""
    topology = assignment.get("topologyAssignment") or {}
    if "slices" in topology:
        try:
            topology["domains"] = [list(each) for each in expand_domains(topology)]
        except ValueError:
            return
        del topology["slices"]
        topology.setdefault("levels", [])


def unknown_parts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything that no schema knows, and where; entries of a topology are written anew."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in UNKNOWN_NAMES:
                yield f"{path}.{name}", each
            elif name not in {"domains", "slices"}:
                yield from unknown_parts(each, f"{path}.{name}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from unknown_parts(each, f"{path}[{index}]")


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_everything_comes_back(kind: str, version: str, seed: int) -> None:
    obj = make_object(kind, version, seed)
    if (obj.get("spec") or {}).get("admissionChecks"):
        obj["spec"].pop("admissionChecksStrategy", None)  # the plain list wins, as upstream
    before = copy.deepcopy(obj)
    there = convert(obj, OTHER[version])
    assert obj == before
    assert {name: each for name, each in there["metadata"].items() if name != "annotations"} == {
        "name": "x"
    }
    assert all(isinstance(each, str) for each in there["metadata"].get("annotations", {}).values())
    json.dumps(there)
    back = convert(there, version)
    assert meaning(back) == meaning(obj)
    assert sorted(unknown_parts(back), key=str) == sorted(unknown_parts(obj), key=str)
    given_notes = obj["metadata"].get("annotations") or {}
    assert back["metadata"].get("annotations", {}) == given_notes
    assert convert(convert(back, OTHER[version]), version) == back
