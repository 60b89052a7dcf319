"""Diffs for people: what is declared, and nothing that the server added."""

from __future__ import annotations

from multiqueue.projection.diff import diff_lines
from tests.unit.lint.objects import Json
from tests.unit.projection.objects import desired, flavor, plan, projected, quota


def lines(*there: Json, **options: bool) -> list[str]:
    made = plan(*there, **options)
    return [line for step in made.steps for line in diff_lines("w", step)]


def as_declared(name: str, **fields: object) -> list[Json]:
    return [
        {**o, **fields} if o["metadata"]["name"] == name else dict(o) for o in desired().objects
    ]


def test_a_new_object_is_shown_as_it_is_declared() -> None:
    got = lines()
    start = got.index('--- w WorkloadPriorityClass "high" (there)')
    assert got[start : start + 7] == [
        '--- w WorkloadPriorityClass "high" (there)',
        '+++ w WorkloadPriorityClass "high" (declared)',
        "@@ -0,0 +1,4 @@",
        "+metadata:",
        "+  labels:",
        "+    multiqueue.dev/projected-from: the-manager",
        "+value: 100",
    ]


def test_only_what_differs_is_marked_however_it_is_spelt() -> None:
    (queue,) = [o for o in desired().objects if o["kind"] == "ClusterQueue"]
    resources = [quota("cpu", "7")]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
    spec = {**queue["spec"], "resourceGroups": groups, "stopPolicy": "None"}
    got = lines(*as_declared("all", spec=spec))
    assert [line for line in got if line[0] in "+-" and line[:3] not in {"---", "+++"}] == [
        "-        nominalQuota: '7'",
        "+        nominalQuota: 8",
    ]


def test_fields_that_go_are_shown() -> None:
    (queue,) = [o for o in desired().objects if o["kind"] == "ClusterQueue"]
    fields = {"f:spec": {"f:cohortName": {}, "f:preemption": {"f:withinClusterQueue": {}}}}
    entry = {"manager": "multiqueue-projection", "operation": "Apply", "fieldsV1": fields}
    spec = {
        **queue["spec"],
        "cohortName": "old",
        "preemption": {"withinClusterQueue": "Any", "reclaimWithinCohort": "Never"},
    }
    metadata = {**queue["metadata"], "managedFields": [entry]}
    got = lines(*as_declared("all", spec=spec, metadata=metadata))
    assert "-  cohortName: old" in got
    assert "-  preemption:" in got


def test_a_deletion_shows_what_goes() -> None:
    got = lines(*as_declared(""), projected(flavor("old", nodeLabels={"a": "b"})), prune=True)
    assert got == [
        '--- w ResourceFlavor "old" (there)',
        '+++ w ResourceFlavor "old" (declared)',
        "@@ -1,3 +0,0 @@",
        "-spec:",
        "-  nodeLabels:",
        "-    a: b",
    ]
