"""CustomResourceDefinitions: from definition to served kind and back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.client import MERGE, Answer, Api, expect, unique

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
        "replicas": {"type": "integer"},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": SPEC,
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            },
        },
    },
}


def version(name: str = "v1", **more: Any) -> dict[str, Any]:
    subresources = {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    return {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": subresources,
        "selectableFields": [{"jsonPath": ".spec.color"}],
        **more,
    }


def definition(group: str, *versions: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": list(versions) or [version()],
        },
    }


def widget(group: str, name: str = "a", version_name: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/{version_name}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def established(answer: Any) -> bool:
    conditions = (answer.body.get("status") or {}).get("conditions") or ()
    return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]


@pytest.fixture
async def group(api: Api) -> AsyncIterator[str]:
    """The group of a served definition."""
    name = f"{unique('g')}.example.com"
    await api.create(CRDS, definition(name))
    await api.until(f"{CRDS}/widgets.{name}", established)
    await api.until(f"/apis/{name}/v1/widgets", lambda answer: answer.status == 200)
    yield name
    await api.send("DELETE", f"{CRDS}/widgets.{name}")


@pytest.fixture
def widgets(group: str, namespace: str) -> str:
    """The path of widgets in the namespace of the test."""
    return f"/apis/{group}/v1/namespaces/{namespace}/widgets"


async def test_a_definition_is_established_with_complete_names(api: Api, group: str) -> None:
    crd = await api.get(f"{CRDS}/widgets.{group}")
    conditions = {each["type"]: each for each in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "True"
    assert conditions["Established"]["reason"] == "InitialNamesAccepted"
    assert crd["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert crd["status"]["acceptedNames"]["singular"] == "widget"
    assert crd["status"]["storedVersions"] == ["v1"]


async def test_a_collision_of_names_is_not_served(api: Api, group: str) -> None:
    crd = definition(group)
    crd["metadata"]["name"] = f"gadgets.{group}"
    crd["spec"]["names"] = {"plural": "gadgets", "kind": "Widget"}
    await api.create(CRDS, crd)
    answer = await api.until(
        f"{CRDS}/gadgets.{group}", lambda each: (each.body.get("status") or {}).get("conditions")
    )
    conditions = {each["type"]: each for each in answer.body["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "False"
    assert conditions["NamesAccepted"]["reason"] == "ListKindConflict"
    assert not established(answer)
    assert (await api.send("GET", f"/apis/{group}/v1/gadgets")).status == 404
    await api.delete(f"{CRDS}/gadgets.{group}")


async def test_objects_are_defaulted_and_pruned(api: Api, group: str, widgets: str) -> None:
    body = {**widget(group, nonsense=True), "extra": 1}
    created = await api.create(widgets, body)
    assert created["spec"] == {"size": 1, "color": "red"}
    assert "extra" not in created
    assert created["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"size": 0}, "spec.size"), ({"size": "x"}, "spec.size"), ({"color": "blue"}, "spec.color")],
)
async def test_objects_are_validated(
    api: Api, group: str, widgets: str, spec: dict[str, Any], field: str
) -> None:
    status = expect(await api.send("POST", widgets, widget(group, **spec)), 422)
    assert status["message"].startswith(f'Widget.{group} "a" is invalid: {field}: ')
    assert status["details"]["causes"][0]["field"] == field
    assert status["details"]["kind"] == "Widget"


async def test_status_is_apart(api: Api, group: str, widgets: str) -> None:
    created = await api.create(widgets, {**widget(group), "status": {"phase": "Early"}})
    assert "status" not in created
    patch = {"status": {"phase": "On"}, "spec": {"size": 9}, "metadata": {"labels": {"x": "y"}}}
    patched = await api.merge(f"{widgets}/a/status", patch)
    assert patched["status"] == {"phase": "On"}
    assert patched["spec"]["size"] == 1
    assert "labels" not in patched["metadata"]
    assert patched["metadata"]["generation"] == 1
    changed = await api.merge(f"{widgets}/a", {"spec": {"size": 9}, "status": {"phase": "Off"}})
    assert changed["status"] == {"phase": "On"}
    assert changed["metadata"]["generation"] == 2


async def test_put_needs_a_resource_version(api: Api, group: str, widgets: str) -> None:
    created = await api.create(widgets, widget(group))
    status = expect(await api.send("PUT", f"{widgets}/a", widget(group)), 422)
    assert "metadata.resourceVersion: Invalid value: " in status["message"]
    assert "must be specified for an update" in status["message"]
    await api.put(f"{widgets}/a", {**created, "spec": {"size": 2}})


async def test_strategic_merge_is_for_built_in_kinds(api: Api, group: str, widgets: str) -> None:
    await api.create(widgets, widget(group))
    content_type = "application/strategic-merge-patch+json"
    assert (await api.send("PATCH", f"{widgets}/a", {}, content_type=content_type)).status == 415


async def test_scale(api: Api, group: str, widgets: str) -> None:
    await api.create(widgets, widget(group, replicas=2))
    await api.merge(f"{widgets}/a/status", {"status": {"replicas": 1, "selector": "a=b"}})
    scale = await api.get(f"{widgets}/a/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    scaled = await api.merge(f"{widgets}/a/scale", {"spec": {"replicas": 5}})
    assert scaled["spec"] == {"replicas": 5}
    await api.put(f"{widgets}/a/scale", {**scaled, "spec": {"replicas": 6}})
    assert (await api.send("PUT", f"{widgets}/a/scale", scaled)).status == 409
    obj = await api.get(f"{widgets}/a")
    assert obj["spec"]["replicas"] == 6
    assert obj["metadata"]["generation"] == 3


async def test_selectable_fields(api: Api, group: str, widgets: str) -> None:
    await api.create(widgets, widget(group, "a"))
    await api.create(widgets, widget(group, "b", color="green"))
    assert await api.names(widgets, fieldSelector="spec.color=green") == ["b"]
    assert (await api.send("GET", widgets, fieldSelector="spec.size=1")).status == 400


async def test_a_deleted_definition_takes_its_objects_along(api: Api, namespace: str) -> None:
    group = f"{unique('g')}.example.com"
    await api.create(CRDS, definition(group))
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    await api.until(path, lambda answer: answer.status == 200)
    await api.create(path, widget(group))
    await api.delete(f"{CRDS}/widgets.{group}")
    await api.until_gone(f"{CRDS}/widgets.{group}")
    await api.until_gone(path)


async def test_a_definition_waits_for_the_finalizers_of_its_objects(
    api: Api, group: str, widgets: str
) -> None:
    body = widget(group)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.create(widgets, body)
    await api.delete(f"{CRDS}/widgets.{group}")
    await api.until(f"{widgets}/a", lambda each: "deletionTimestamp" in each.body["metadata"])
    for _ in range(50):
        late = await api.send("POST", widgets, widget(group, unique("b")))
        if late.status != 201:
            break
        await asyncio.sleep(0.1)  # a real server notices in the background
    status = expect(late, 403)
    assert "create not allowed while custom resource definition" in status["message"]
    crd = await api.get(f"{CRDS}/widgets.{group}")
    [terminating] = [each for each in crd["status"]["conditions"] if each["type"] == "Terminating"]
    assert terminating["status"] == "True"
    await api.merge(f"{widgets}/a", {"metadata": {"finalizers": None}})
    await api.until_gone(f"{CRDS}/widgets.{group}")


async def test_versions_show_the_same_objects(api: Api, group: str, namespace: str) -> None:
    crd = await api.get(f"{CRDS}/widgets.{group}")
    crd["spec"]["versions"] = [
        version("v2", served=True, storage=True),
        version("v1", served=True, storage=False),
    ]
    old = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    new = f"/apis/{group}/v2/namespaces/{namespace}/widgets"
    created = await api.create(old, widget(group, "before"))
    await api.put(f"{CRDS}/widgets.{group}", crd)
    for path in (new, old):  # each has a cache of its own
        await api.until(path, lambda answer: answer.status == 200)
    await api.create(old, widget(group, "a"))
    await api.create(new, widget(group, "b", "v2"))
    for path, name in ((old, "v1"), (new, "v2")):
        items = (await api.get(path))["items"]
        assert [each["metadata"]["name"] for each in items] == ["a", "b", "before"]
        assert {each["apiVersion"] for each in items} == {f"{group}/{name}"}
    assert await api.get(f"{old}/before") == created
    stored = (await api.get(f"{CRDS}/widgets.{group}"))["status"]["storedVersions"]
    assert stored == ["v1", "v2"]


async def test_watches_of_each_version_speak_it(api: Api, group: str, widgets: str) -> None:
    crd = await api.get(f"{CRDS}/widgets.{group}")
    crd["spec"]["versions"].append(version("v2", storage=False))
    await api.put(f"{CRDS}/widgets.{group}", crd)
    path = widgets.replace("/v1/", "/v2/")
    await api.until(path, lambda answer: answer.status == 200)
    start = (await api.get(path))["metadata"]["resourceVersion"]
    async with api.watch(path, resourceVersion=start) as watch:
        await api.create(widgets, widget(group))
        type_, obj = await watch.next()
    assert (type_, obj["apiVersion"]) == ("ADDED", f"{group}/v2")


async def test_deprecated_versions_warn(api: Api, group: str, widgets: str) -> None:
    crd = await api.get(f"{CRDS}/widgets.{group}")
    crd["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": "use something else"}
    await api.put(f"{CRDS}/widgets.{group}", crd)

    def warns(answer: Answer) -> bool:
        return any("use something else" in each for each in answer.warnings)

    await api.until(widgets, warns)


async def test_invalid_definitions_are_refused(api: Api) -> None:
    crd = definition("x.example.com")
    crd["metadata"]["name"] = "wrong.x.example.com"
    status = expect(await api.send("POST", CRDS, crd), 422)
    assert "metadata.name: Invalid value" in status["message"]


async def test_json_patch_works_on_custom_objects(api: Api, group: str, widgets: str) -> None:
    await api.create(widgets, widget(group))
    patch = [{"op": "replace", "path": "/spec/size", "value": 3}]
    answer = await api.send(
        "PATCH", f"{widgets}/a", patch, content_type="application/json-patch+json"
    )
    assert expect(answer, 200)["spec"]["size"] == 3
    refused = {"spec": {"size": 0}}
    answer = await api.send("PATCH", f"{widgets}/a", refused, content_type=MERGE)
    assert answer.status == 422
