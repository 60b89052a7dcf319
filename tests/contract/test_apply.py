"""Server-side apply: who owns which fields, and what that means for the next one."""

from typing import Any

import pytest

from tests.contract.client import MERGE, Answer, Api, config_map, expect, job, pod
from tests.contract.managed_fields import (
    applied,
    apply,
    conflicts,
    fields_of,
    managers,
)
from tests.contract.widgets import served_widgets


async def test_an_apply_creates_what_is_not_there(api: Api, config_maps: str) -> None:
    answer = await apply(api, f"{config_maps}/a", config_map("a", {"x": "1"}), manager="one")
    created = expect(answer, 201)
    assert created["data"] == {"x": "1"}
    (entry,) = created["metadata"]["managedFields"]
    assert entry.pop("time")
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}},
    }


async def test_an_apply_needs_a_manager(api: Api, config_maps: str) -> None:
    status = expect(await apply(api, f"{config_maps}/a", config_map("a"), manager=""), 422)
    assert status["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
        "is required for apply patch"
    )


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        ("a" * 129, "Too long: may not be more than 128 bytes"),
        ("a\u200b", "invalid character U+200B (at position 1)"),
    ],
    ids=["too long", "not printable"],
)
async def test_managers_have_printable_names(
    api: Api, config_maps: str, manager: str, words: str
) -> None:
    answer = await apply(api, f"{config_maps}/a", config_map("a"), manager=manager)
    assert words in expect(answer, 422)["message"]
    created = await api.send("POST", config_maps, config_map("a"), fieldManager=manager)
    assert 'CreateOptions.meta.k8s.io "" is invalid' in expect(created, 422)["message"]


async def test_only_an_apply_can_be_forced(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    answer = await api.send("PATCH", f"{config_maps}/a", {}, content_type=MERGE, force="true")
    assert "may not be specified for non-apply patch" in expect(answer, 422)["message"]


async def test_an_apply_of_the_same_changes_nothing(api: Api, config_maps: str) -> None:
    body = config_map("a", {"x": "1"})
    first = await applied(api, f"{config_maps}/a", body, manager="one")
    assert await applied(api, f"{config_maps}/a", body, manager="one") == first


async def test_appliers_of_different_fields_do_not_conflict(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    both = await applied(api, path, config_map("a", {"y": "2"}), manager="two")
    assert both["data"] == {"x": "1", "y": "2"}
    assert fields_of(both, "one") == {"f:data": {"f:x": {}}}
    assert fields_of(both, "two") == {"f:data": {"f:y": {}}}


async def test_equal_values_are_owned_by_both(api: Api, config_maps: str) -> None:
    path, body = f"{config_maps}/a", config_map("a", {"x": "1"})
    await applied(api, path, body, manager="one")
    shared = await applied(api, path, body, manager="two")
    assert fields_of(shared, "one") == fields_of(shared, "two") == {"f:data": {"f:x": {}}}
    left = await applied(api, path, bare(), manager="one")
    assert left["data"] == {"x": "1"}
    gone = await applied(api, path, bare(), manager="two")
    assert not gone.get("data")


async def test_another_value_is_a_conflict(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    answer = await apply(api, path, config_map("a", {"x": "2"}), manager="two")
    status = expect(answer, 409)
    assert status["reason"] == "Conflict"
    assert status["message"] == ('Apply failed with 1 conflict: conflict with "one": .data.x')
    assert status["details"] == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "one"',
                "field": ".data.x",
            }
        ]
    }
    assert (await api.get(path))["data"] == {"x": "1"}


async def test_conflicts_are_told_by_manager(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await applied(api, path, config_map("a", {"x": "1", "y": "1"}), manager="one")
    await api.merge(path, {"data": {"z": "1"}}, fieldManager="updater")
    body = config_map("a", {"x": "2", "y": "2", "z": "2"})
    status = expect(await apply(api, path, body, manager="two"), 409)
    assert status["message"] == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.x\n- .data.y\n'
        'conflicts with "updater" using v1:\n- .data.z'
    )
    assert conflicts(status) == {".data.x", ".data.y", ".data.z"}


async def test_force_takes_fields_over(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await applied(api, path, config_map("a", {"x": "1", "y": "1"}), manager="one")
    taken = await applied(api, path, config_map("a", {"x": "2"}), manager="two", force=True)
    assert taken["data"] == {"x": "2", "y": "1"}
    assert fields_of(taken, "one") == {"f:data": {"f:y": {}}}
    dropped = await applied(api, path, bare(), manager="two")
    assert dropped["data"] == {"y": "1"}
    assert managers(dropped) == {("one", "Apply", "")}


async def test_what_is_not_applied_any_more_goes(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    body = config_map("a", {"x": "1", "y": "2"}, labels={"l": "1"})
    await applied(api, path, body, manager="one")
    left = await applied(api, path, config_map("a", {"y": "2"}), manager="one")
    assert left["data"] == {"y": "2"}
    assert "labels" not in left["metadata"]


async def test_updates_own_what_they_change(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await applied(api, path, config_map("a", {"x": "1", "y": "1"}), manager="one")
    changed = await api.merge(path, {"data": {"x": "2", "z": "3"}}, fieldManager="updater")
    assert fields_of(changed, "one") == {"f:data": {"f:y": {}}}
    assert fields_of(changed, "updater", "Update") == {"f:data": {"f:x": {}, "f:z": {}}}
    removed = await api.merge(path, {"data": {"y": None, "z": None}}, fieldManager="updater")
    assert fields_of(removed, "updater", "Update") == {"f:data": {"f:x": {}}}
    assert managers(removed) == {("updater", "Update", "")}


async def test_an_update_of_nothing_owns_nothing(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    before = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    assert await api.merge(path, {"data": {"x": "1"}}, fieldManager="updater") == before


async def test_creators_own_what_they_say_and_defaults(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"), fieldManager="me")
    spec = fields_of(created, "me", "Update")["f:spec"]
    assert {"f:suspend", "f:template", "f:backoffLimit", "f:parallelism"} <= spec.keys()
    assert "f:selector" not in spec
    containers = spec["f:template"]["f:spec"]["f:containers"]
    assert containers['k:{"name":"main"}'].keys() >= {".", "f:name", "f:image"}


async def test_the_manager_is_the_program_if_not_said(api: Api, config_maps: str) -> None:
    agent = {"User-Agent": "my program/v1 (x) y"}
    answer = await api.send("POST", config_maps, config_map("a", {"x": "1"}), headers=agent)
    assert managers(expect(answer, 201)) == {("my program", "Update", "")}


async def test_items_of_keyed_lists_are_owned_one_by_one(api: Api, deployments: str) -> None:
    path = f"{deployments}/a"
    await applied(api, path, deployment({"name": "one", "image": "x"}), manager="one")
    two = deployment({"name": "two", "image": "x"})
    both = await applied(api, path, two, manager="two")
    containers = both["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["one", "two"]
    status = expect(
        await apply(api, path, deployment({"name": "one", "image": "y"}), manager="two"), 409
    )
    assert conflicts(status) == {'.spec.template.spec.containers[name="one"].image'}
    third = deployment({"name": "three", "image": "x"})
    swapped = await applied(api, path, third, manager="two")
    containers = swapped["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in containers] == ["one", "three"]


async def test_keys_have_defaults(api: Api, deployments: str) -> None:
    port = {"containerPort": 80}
    body = deployment({"name": "one", "image": "x", "ports": [port, port | {"protocol": "UDP"}]})
    made = await applied(api, f"{deployments}/a", body, manager="one")
    spec = fields_of(made, "one")["f:spec"]["f:template"]["f:spec"]
    assert spec["f:containers"]['k:{"name":"one"}']["f:ports"].keys() == {
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
    }
    twice = deployment({"name": "one", "image": "x", "ports": [port, port | {"protocol": "TCP"}]})
    refused = await apply(api, f"{deployments}/a", twice, manager="one")
    assert_unfit(refused, 'duplicate entries for key [containerPort=80,protocol="TCP"]')


async def test_atomic_lists_and_maps_are_owned_and_replaced_whole(api: Api, pods: str) -> None:
    path, body = f"{pods}/a", pod("a")
    body["spec"] |= {"tolerations": [{"key": "a"}], "nodeSelector": {"x": "1"}}
    made = await applied(api, path, body, manager="one")
    assert fields_of(made, "one")["f:spec"]["f:nodeSelector"] == {}
    assert fields_of(made, "one")["f:spec"]["f:tolerations"] == {}
    only = {**pod("a"), "spec": {"tolerations": [{"key": "b"}]}}
    status = expect(await apply(api, path, only, manager="two"), 409)
    assert conflicts(status) == {".spec.tolerations"}


async def test_owners_and_finalizers_are_items(api: Api, config_maps: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}
    owner["uid"] = (await api.create(config_maps, config_map("o")))["metadata"]["uid"]
    path = f"{config_maps}/a"
    body = bare(ownerReferences=[owner], finalizers=["example.com/one"])
    await applied(api, path, body, manager="one")
    more = bare(finalizers=["example.com/two"])
    both = await applied(api, path, more, manager="two")
    assert both["metadata"]["finalizers"] == ["example.com/one", "example.com/two"]
    assert fields_of(both, "one")["f:metadata"] == {
        "f:finalizers": {'v:"example.com/one"': {}},
        "f:ownerReferences": {f'k:{{"uid":"{owner["uid"]}"}}': {}},
    }
    await applied(api, path, bare(), manager="one")
    last = await applied(api, path, bare(), manager="two")
    assert not {"finalizers", "ownerReferences"} & last["metadata"].keys()


async def test_status_is_applied_through_its_subresource_only(api: Api, deployments: str) -> None:
    path, body = f"{deployments}/a", deployment({"name": "one", "image": "x"})
    made = await applied(api, path, body | {"status": {"replicas": 3}}, manager="one")
    assert not made["status"].get("replicas")
    assert "f:status" not in fields_of(made, "one")
    status = {"replicas": 3, "conditions": [{"type": "Fine", "status": "True"}]}
    told = {**deployment(), "spec": {"replicas": 9}, "status": status}
    changed = await applied(api, f"{path}/status", told, manager="one")
    assert changed["status"]["replicas"] == 3
    assert changed["spec"]["replicas"] == 1
    assert managers(changed) >= {("one", "Apply", ""), ("one", "Apply", "status")}
    conditions = fields_of(changed, "one", subresource="status")["f:status"]["f:conditions"]
    assert conditions == {'k:{"type":"Fine"}': {".": {}, "f:status": {}, "f:type": {}}}
    assert "f:spec" not in fields_of(changed, "one", subresource="status")


async def test_a_subresource_is_not_created(api: Api, deployments: str) -> None:
    body = {**deployment(), "status": {"replicas": 1}}
    answer = await apply(api, f"{deployments}/a/status", body, manager="one")
    assert answer.status == 404


async def test_scaling_owns_the_replicas(api: Api, deployments: str) -> None:
    path = f"{deployments}/a"
    await applied(api, path, deployment({"name": "one", "image": "x"}, replicas=1), manager="one")
    await api.merge(f"{path}/scale", {"spec": {"replicas": 2}}, fieldManager="scaler")
    scaled = await api.get(path)
    assert fields_of(scaled, "scaler", "Update", "scale") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in fields_of(scaled, "one")["f:spec"]
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    wanted = {**body, "spec": {"replicas": 3}}
    status = expect(await apply(api, f"{path}/scale", wanted, manager="two"), 409)
    assert status["message"] == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" '
        "using autoscaling/v1: .spec.replicas"
    )
    answer = await applied(api, f"{path}/scale", wanted, manager="two", force=True)
    assert answer["spec"]["replicas"] == 3
    assert ("two", "Apply", "scale") in managers(await api.get(path))


async def test_custom_kinds_follow_their_schema(api: Api, namespace: str) -> None:
    async with served_widgets(api, namespace) as widgets:
        path = f"{widgets.path}/a"
        body = widgets.body(parts=[{"name": "x", "weight": 1}], open={"a": {"b": [1]}}, share=1)
        made = await applied(api, path, body, manager="one")
        assert made["spec"]["color"] == "red"
        assert fields_of(made, "one")["f:spec"] == {
            "f:size": {},
            "f:parts": {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:weight": {}}},
            "f:open": {"f:a": {".": {}, "f:b": {}}},
            "f:share": {},
        }
        other = {**widgets.body(), "spec": {"parts": [{"name": "y"}], "open": {"c": 1}}}
        both = await applied(api, path, other, manager="two")
        assert [each["name"] for each in both["spec"]["parts"]] == ["x", "y"]
        assert both["spec"]["open"] == {"a": {"b": [1]}, "c": 1}
        less = {**widgets.body(), "spec": {"size": 3}}
        left = await applied(api, path, less, manager="one")
        assert left["spec"] == {
            "size": 3,
            "color": "red",
            "parts": [{"name": "y"}],
            "open": {"c": 1},
        }


async def test_an_apply_that_changes_the_spec_is_a_generation(api: Api, namespace: str) -> None:
    async with served_widgets(api, namespace) as widgets:
        path = f"{widgets.path}/a"
        await applied(api, path, widgets.body(size=1), manager="one")
        same = await applied(api, path, widgets.body(size=1), manager="two")
        assert same["metadata"]["generation"] == 1
        more = await applied(api, path, widgets.body(size=2), manager="one", force=True)
        assert more["metadata"]["generation"] == 2


async def test_an_invalid_result_is_refused(api: Api, namespace: str) -> None:
    async with served_widgets(api, namespace) as widgets:
        status = expect(
            await apply(api, f"{widgets.path}/a", widgets.body(size=11), manager="one"), 422
        )
        assert "spec.size: Invalid value: 11" in status["message"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nonsense": 1}, ".spec.nonsense: field not declared in schema"),
        ({"size": "x"}, ".spec.size: expected numeric (int or float), got string"),
        ({"parts": 1}, ".spec.parts: expected list, got &{1}"),
        (
            {"parts": [{"name": "x"}, {"name": "x"}]},
            '.spec.parts: duplicate entries for key [name="x"]',
        ),
        (
            {"parts": [3]},
            ".spec.parts: element 0: associative list with keys may not have non-map elements",
        ),
    ],
    ids=["unknown field", "wrong scalar", "wrong list", "repeated item", "item without key"],
)
async def test_configurations_fit_the_schema(
    api: Api, namespace: str, spec: dict[str, Any], words: str
) -> None:
    async with served_widgets(api, namespace) as widgets:
        answer = await apply(api, f"{widgets.path}/a", widgets.body(**spec), manager="one")
        assert_unfit(answer, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "v2"}, "invalid object type: /v2, Kind=ConfigMap"),
        ({"metadata": {"name": "b"}}, "the name of the object (b) does not match"),
        ({"metadata": {"name": "a", "namespace": "zz"}}, "does not match the namespace sent"),
        (
            {"metadata": {"name": "a", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
    ],
    ids=["kind", "version", "name", "namespace", "managedFields"],
)
async def test_configurations_are_of_the_object(
    api: Api, config_maps: str, change: dict[str, Any], words: str
) -> None:
    body = config_map("a") | change
    for _ in range(2):  # without the object, and with it
        answer = await apply(api, f"{config_maps}/a", body, manager="one")
        assert words in expect(answer, 400)["message"]
        await api.send("POST", config_maps, config_map("a"))


async def test_a_name_must_be_said_of_a_new_object(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}
    status = expect(await apply(api, path, body, manager="one"), 400)
    assert "name must be provided" in status["message"]
    await api.create(config_maps, config_map("a"))
    assert (await applied(api, path, body, manager="one"))["data"] == {"x": "1"}


async def test_a_resource_version_is_a_precondition(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    made = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    version = made["metadata"]["resourceVersion"]
    changed = config_map("a", {"x": "2"}, resourceVersion=version)
    await applied(api, path, changed, manager="one")
    assert (await apply(api, path, changed, manager="one")).status == 409


async def test_a_uid_is_a_precondition(api: Api, config_maps: str) -> None:
    path, body = f"{config_maps}/a", config_map("a", uid="1")
    absent = expect(await apply(api, path, body, manager="one"), 409)
    assert "uid mismatch: the provided object specified uid 1" in absent["message"]
    await api.create(config_maps, config_map("a"))
    assert (await apply(api, path, body, manager="one")).status in {409, 422}


async def test_a_dry_run_keeps_nothing(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    shown = expect(
        await apply(api, path, config_map("a", {"x": "1"}), manager="one", dryRun="All"), 201
    )
    assert managers(shown) == {("one", "Apply", "")}
    assert (await api.send("GET", path)).status == 404


async def test_yaml_is_understood(api: Api, config_maps: str) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: {x: '1'}\n"
    assert (await applied(api, f"{config_maps}/a", text, manager="one"))["data"] == {"x": "1"}


@pytest.mark.parametrize("text", ["{a", "[1]", "null", ""])
async def test_what_is_no_configuration_is_refused(api: Api, config_maps: str, text: str) -> None:
    assert (await apply(api, f"{config_maps}/a", text, manager="one")).status == 400


async def test_cbor_is_not_taken(api: Api, config_maps: str) -> None:
    answer = await api.send(
        "PATCH", f"{config_maps}/a", b"x", content_type="application/apply-patch+cbor"
    )
    assert answer.status == 415


async def test_what_was_there_before_owners_were_kept_is_owned(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await api.create(config_maps, config_map("a", {"x": "1", "y": "1"}))
    cleared = await api.merge(path, {"metadata": {"managedFields": [{}]}})
    assert not cleared["metadata"].get("managedFields")
    untracked = await api.merge(path, {"data": {"y": "2"}})
    assert not untracked["metadata"].get("managedFields")
    status = expect(await apply(api, path, config_map("a", {"x": "2"}), manager="one"), 409)
    assert 'conflict with "before-first-apply" using v1: .data.x' in status["message"]
    taken = await applied(api, path, config_map("a", {"x": "2"}), manager="one", force=True)
    assert fields_of(taken, "before-first-apply", "Update") == {"f:data": {".": {}, "f:y": {}}}


async def test_owners_can_be_edited(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    made = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    made["metadata"]["managedFields"][0]["manager"] = "two"
    edited = await api.put(path, made)
    assert managers(edited) == {("two", "Apply", "")}
    edited["metadata"]["managedFields"] = []
    assert "managedFields" not in (await api.put(path, edited))["metadata"]


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Frobnicate"},
        {"fieldsType": "FieldsV2"},
        {"apiVersion": ""},
        {"fieldsV1": {"nonsense": {}}},
    ],
    ids=["operation", "fieldsType", "apiVersion", "fieldsV1"],
)
async def test_invalid_owners_are_ignored(
    api: Api, config_maps: str, change: dict[str, Any]
) -> None:
    path = f"{config_maps}/a"
    made = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    owners = made["metadata"]["managedFields"]
    made["metadata"]["managedFields"] = [owners[0] | change]
    assert (await api.put(path, made))["metadata"]["managedFields"] == owners


async def test_clients_that_know_no_owners_keep_them(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    made = await applied(api, path, config_map("a", {"x": "1"}), manager="one")
    del made["metadata"]["managedFields"]
    put = await api.put(path, made)
    assert managers(put) == {("one", "Apply", "")}


async def test_a_value_that_becomes_a_map_is_owned_with_its_fields(
    api: Api, namespace: str
) -> None:
    async with served_widgets(api, namespace) as widgets:
        path = f"{widgets.path}/a"
        await applied(api, path, widgets.body(), manager="one")
        await api.merge(path, {"spec": {"open": {"a": 1}}}, fieldManager="two")
        grown = await api.merge(path, {"spec": {"open": {"a": {"b": 1}}}}, fieldManager="two")
        (owned,) = fields_of(grown, "two", "Update")["f:spec"].values()
        assert owned == {".": {}, "f:a": {".": {}, "f:b": {}}}


async def test_owners_of_custom_kinds_survive_an_empty_list(api: Api, namespace: str) -> None:
    async with served_widgets(api, namespace) as widgets:
        path = f"{widgets.path}/a"
        await applied(api, path, widgets.body(), manager="one")
        kept = await api.merge(path, {"metadata": {"managedFields": []}})
        assert managers(kept) == {("one", "Apply", "")}
        assert managers(await api.put(path, kept)) == {("one", "Apply", "")}
        cleared = await api.merge(path, {"metadata": {"managedFields": [{}]}})
        assert managers(cleared) == set()


@pytest.mark.parametrize(
    ("field", "kind"), [("note", "string"), ("open", "object"), ("parts", "array")]
)
async def test_an_applied_null_is_a_value_of_the_wrong_type(
    api: Api, namespace: str, field: str, kind: str
) -> None:
    async with served_widgets(api, namespace) as widgets:
        body = widgets.body(color=None, **{field: None})
        created = await apply(api, f"{widgets.path}/a", body, manager="one")
        words = f'spec.{field}: Invalid value: "null": spec.{field} in body must be of type {kind}'
        assert words in expect(created, 422)["message"]
        posted = await api.create(widgets.path, body)
        assert posted["spec"] == {"size": 3, "color": "red"}
        changed = await apply(api, f"{widgets.path}/a", body, manager="one", force=True)
        assert words in expect(changed, 422)["message"]


async def test_too_many_updaters_become_one(api: Api, config_maps: str) -> None:
    path = f"{config_maps}/a"
    await api.create(config_maps, config_map("a", {"x": "0"}), fieldManager="m-0")
    for number in range(1, 14):
        patch = {"data": {f"k{number}": "v"}}
        last = await api.merge(path, patch, fieldManager=f"m-{number}")
    found = {name for name, _, _ in managers(last)}
    assert len(found) == 10
    assert "ancient-changes" in found
    owned = fields_of(last, "ancient-changes", "Update")["f:data"].keys()
    assert len(owned - {"."}) == 5 - ("f:x" not in owned)


async def test_lists_and_metadata_show_owners(api: Api, config_maps: str) -> None:
    await applied(api, f"{config_maps}/a", config_map("a", {"x": "1"}), manager="one")
    listed = await api.get(config_maps)
    (found,) = [each for each in listed["items"] if each["metadata"]["name"] == "a"]
    assert managers(found) == {("one", "Apply", "")}
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    partial = expect(await api.send("GET", f"{config_maps}/a", headers=accept), 200)
    assert managers(partial) == {("one", "Apply", "")}


async def test_watches_show_owners(api: Api, config_maps: str) -> None:
    version = (await api.get(config_maps))["metadata"]["resourceVersion"]
    async with api.watch(config_maps, resourceVersion=version) as watch:
        await applied(api, f"{config_maps}/a", config_map("a", {"x": "1"}), manager="one")
        while True:
            _, obj = await watch.next()
            if obj["metadata"]["name"] == "a":
                break
        assert managers(obj) == {("one", "Apply", "")}


def bare(**metadata: Any) -> dict[str, Any]:
    """A config map that says nothing of its data."""
    body = config_map("a", **metadata)
    del body["data"]
    return body


def assert_unfit(answer: Answer, words: str) -> None:
    """Kubernetes calls it its own failure; the embedded server a bad request."""
    assert answer.status in {400, 500}, answer
    assert "failed to create typed patch object" in answer.body["message"]
    assert words in answer.body["message"]


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": list(containers)}}
    selector = {"matchLabels": {"app": "a"}}
    wanted = {"selector": selector, "template": template, **spec} if containers else spec
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        **({"spec": wanted} if wanted else {}),
    }


@pytest.fixture
def deployments(namespace: str) -> str:
    """The path of deployments in that namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"
