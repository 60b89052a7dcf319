"""What the server says to bad objects, and what it makes of good ones."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import MERGE, STRATEGIC, Answer, Api, config_map, expect, job, pod
from tests.contract.widgets import Widgets, served_widgets


@pytest.fixture
async def widgets(api: Api, namespace: str) -> AsyncIterator[Widgets]:
    async with served_widgets(api, namespace) as served:
        yield served


def refused(answer: Answer) -> dict[str, str]:
    """Field to message of a 422."""
    status = expect(answer, 422)
    assert status["reason"] == "Invalid"
    return {cause["field"]: cause["message"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"size": None}, "spec.size", "Required value"),
        ({"size": "big"}, "spec.size", 'in body must be of type integer: "string"'),
        ({"size": 11}, "spec.size", "in body should be less than or equal to 10"),
        ({"size": 0}, "spec.size", "in body should be greater than or equal to 1"),
        ({"color": "blue"}, "spec.color", 'supported values: "red", "green"'),
        ({"note": "too long"}, "spec.note", "Too long: may not be more than 5"),
        ({"code": "A1"}, "spec.code", "in body should match '^[a-z]+$'"),
        ({"share": {}}, "spec.share", "must be of type"),
        ({"parts": [{"weight": 1}]}, "spec.parts[0].name", "Required value"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, "spec.parts[1]", "Duplicate value"),
        ({"parts": [{"name": x} for x in "abcd"]}, "spec.parts", "must have at most 3 items"),
        ({"parts": [None]}, "spec.parts[0]", 'must be of type object: "null"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_custom_objects_are_checked_by_their_schema(
    api: Api, widgets: Widgets, spec: dict[str, Any], field: str, words: str
) -> None:
    causes = refused(await api.send("POST", widgets.path, widgets.body(**spec)))
    assert words in causes[field]


async def test_custom_objects_get_their_defaults(api: Api, widgets: Widgets) -> None:
    created = await api.create(widgets.path, widgets.body(color=None, note=None))
    assert created["spec"] == {"size": 3, "color": "red"}


async def test_open_parts_of_custom_objects_stay_as_they_are(api: Api, widgets: Widgets) -> None:
    created = await api.create(widgets.path, widgets.body(open={"a": {"b": None}}, share="50%"))
    assert created["spec"]["open"] == {"a": {"b": None}}
    assert created["spec"]["share"] == "50%"


async def test_unknown_fields_of_custom_objects_are_reported(api: Api, widgets: Widgets) -> None:
    body = widgets.body(parts=[{"name": "a", "bogus": 1}], more=2)
    warned = await api.send("POST", f"{widgets.path}", body, fieldValidation="Warn")
    assert expect(warned, 201)["spec"]["parts"] == [{"name": "a"}]
    assert sorted(warned.warnings) == [
        '299 - "unknown field \\"spec.more\\""',
        '299 - "unknown field \\"spec.parts[0].bogus\\""',
    ]
    strict = await api.send("POST", widgets.path, body, fieldValidation="Strict")
    message = expect(strict, 400)["message"]
    assert message.startswith(
        'Widget in version "v1" cannot be handled as a Widget: strict decoding'
    )
    assert 'unknown field "spec.parts[0].bogus"' in message


async def test_repeated_fields_are_reported(api: Api, config_maps: str) -> None:
    raw = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","x":"2"}}'
    strict = await api.send("POST", config_maps, raw, fieldValidation="Strict")
    assert 'duplicate field "data.x"' in expect(strict, 400)["message"]
    warned = await api.send("POST", config_maps, raw, fieldValidation="Warn")
    assert warned.warnings == ['299 - "duplicate field \\"data.x\\""']


async def test_an_unknown_field_in_a_patch_is_pruned_with_a_warning(
    api: Api, widgets: Widgets
) -> None:
    await api.create(widgets.path, widgets.body())
    patch = {"spec": {"bogus": 1, "note": "x"}}
    answer = await api.send(
        "PATCH", f"{widgets.path}/a", patch, content_type=MERGE, fieldValidation="Warn"
    )
    assert expect(answer, 200)["spec"] == {"size": 3, "color": "red", "note": "x"}
    assert answer.warnings == ['299 - "unknown field \\"spec.bogus\\""']


async def test_an_update_is_checked_too(api: Api, widgets: Widgets) -> None:
    await api.create(widgets.path, widgets.body())
    answer = await api.send(
        "PATCH", f"{widgets.path}/a", {"spec": {"size": 11}}, content_type=MERGE
    )
    assert list(refused(answer)) == ["spec.size"]


async def test_metadata_has_the_same_types_everywhere(api: Api, widgets: Widgets) -> None:
    body = widgets.body()
    body["metadata"]["labels"] = {"a": 1}
    assert (
        "cannot unmarshal number"
        in expect(await api.send("POST", widgets.path, body), 400)["message"]
    )


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "x"}}, "metadata.labels"),
        ({"labels": {"a": "x y"}}, "metadata.labels"),
        ({"annotations": {"a b": "x"}}, "metadata.annotations"),
        ({"finalizers": ["plain"]}, "metadata.finalizers[0]"),
        ({"ownerReferences": [{"kind": "Pod"}]}, "metadata.ownerReferences.uid"),
    ],
    ids=["label key", "label value", "annotation key", "finalizer", "owner"],
)
async def test_metadata_is_checked(
    api: Api, config_maps: str, metadata: dict[str, Any], field: str
) -> None:
    causes = refused(await api.send("POST", config_maps, config_map("a", **metadata)))
    assert field in causes


WRONG_TYPE = (
    'Job in version "v1" cannot be handled as a Job: json: cannot unmarshal string '
    "into Go struct field JobSpec.spec.parallelism of type int32"
)


async def test_a_wrong_type_in_a_built_in_object_is_a_bad_request(api: Api, jobs: str) -> None:
    status = expect(await api.send("POST", jobs, job("a", parallelism="three")), 400)
    assert (status["reason"], status["message"]) == ("BadRequest", WRONG_TYPE)


async def test_a_malformed_quantity_is_a_bad_request(api: Api, pods: str) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "lots"}}
    message = expect(await api.send("POST", pods, body), 400)["message"]
    assert "quantities must match the regular expression" in message


async def test_quantities_are_stored_in_their_shortest_form(api: Api, pods: str) -> None:
    body = pod("a")
    requests = {"cpu": "0.5", "memory": "1024Mi"}
    body["spec"]["containers"][0]["resources"] = {"requests": requests}
    created = await api.create(pods, body)
    got = created["spec"]["containers"][0]["resources"]["requests"]
    assert got == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "field", "words"),
    [
        (
            {"requests": {"cpu": "-1"}},
            "spec.containers[0].resources.requests[cpu]",
            "must be greater than or equal to 0",
        ),
        (
            {"requests": {"nvidia.com/gpu": "1"}},
            "spec.containers[0].resources.limits",
            "Limit must be set for non overcommitable resources",
        ),
        (
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            "spec.containers[0].resources.requests",
            "must be less than or equal to cpu limit of 1",
        ),
    ],
    ids=["negative", "a device without limit", "more than the limit"],
)
async def test_resources_of_containers_are_checked(
    api: Api, pods: str, resources: dict[str, Any], field: str, words: str
) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = resources
    assert words in refused(await api.send("POST", pods, body))[field]


async def test_a_job_gets_its_defaults(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    spec = created["spec"]
    uid = created["metadata"]["uid"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "a"
    want = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed"}
    assert {field: spec[field] for field in want} == want
    container = spec["template"]["spec"]["containers"][0]
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {}


async def test_a_job_without_containers_says_what_is_missing(api: Api, jobs: str) -> None:
    causes = refused(await api.send("POST", jobs, {"metadata": {"name": "a"}, "spec": {}}))
    assert causes == {
        "spec.template.spec.containers": "Required value",
        "spec.template.spec.restartPolicy": 'Required value: valid values: "OnFailure", "Never"',
    }


async def test_what_a_job_runs_cannot_change(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    for patch, field in (
        ({"spec": {"completions": 5}}, "spec.completions"),
        ({"spec": {"managedBy": "example.com/other"}}, "spec.managedBy"),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}},
            "spec.template.spec",
        ),
    ):
        answer = await api.send("PATCH", f"{jobs}/a", patch, content_type=STRATEGIC)
        assert "field is immutable" in refused(answer)[field]


async def test_a_suspended_job_may_be_told_where_to_run(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "a100"}}}, "suspend": False}}
    changed = await api.merge(f"{jobs}/a", patch)
    assert changed["spec"]["template"]["spec"]["nodeSelector"] == {"gpu": "a100"}


async def test_a_job_status_may_not_contradict_itself(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    conditions = [{"type": "Complete", "status": "True"}]
    answer = await api.send(
        "PATCH", f"{jobs}/a/status", {"status": {"conditions": conditions}}, content_type=MERGE
    )
    assert {"status.conditions", "status.startTime"} <= refused(answer).keys()


async def test_a_pods_priority_comes_from_its_class(api: Api, pods: str) -> None:
    body = pod("a")
    body["spec"]["priorityClassName"] = "there-is-none"
    status = expect(await api.send("POST", pods, body), 403)
    assert status["message"] == (
        'pods "a" is forbidden: no PriorityClass with name there-is-none was found'
    )


async def test_a_priority_class_keeps_its_value(api: Api, namespace: str) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.create(path, {"metadata": {"name": namespace}, "value": 5})
    answer = await api.send("PATCH", f"{path}/{namespace}", {"value": 6}, content_type=MERGE)
    assert list(refused(answer)) == ["value"]
    await api.delete(f"{path}/{namespace}")


async def test_plain_text_of_a_secret_is_encoded(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "a"}, "stringData": {"x": "y"}}
    created = await api.create(f"/api/v1/namespaces/{namespace}/secrets", body)
    assert (created["data"], created["type"]) == ({"x": "eQ=="}, "Opaque")
    assert "stringData" not in created


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Galaxy"}, "spec.scope"),
        ({"group": "other.example.com"}, "metadata.name"),
        ({"versions": []}, "spec.versions"),
    ],
    ids=["scope", "name", "versions"],
)
async def test_definitions_are_checked(api: Api, change: dict[str, Any], field: str) -> None:
    spec = {"group": "x.example.com", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    body = {
        "metadata": {"name": "xs.x.example.com"},
        "spec": {**spec, "versions": [version], **change},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert field in refused(await api.send("POST", path, body, dryRun="All"))


async def test_schemas_must_be_structural(api: Api) -> None:
    properties = {"spec": {"type": "object", "properties": {"a": {"type": "thing"}, "b": {}}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"plural": "xs", "kind": "X"}
    spec = {"group": "x.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    body = {"metadata": {"name": "xs.x.example.com"}, "spec": spec}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    causes = refused(await api.send("POST", path, body, dryRun="All"))
    where = "spec.validation.openAPIV3Schema.properties[spec].properties"
    assert {f"{where}[a].type", f"{where}[b].type"} <= causes.keys()
