"""Patches of every type, and the locks that they may carry."""

from typing import Any

import pytest

from tests.contract.client import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Answer,
    Api,
    config_map,
    expect,
    job,
    pod,
)


async def send(api: Api, path: str, patch: Any, content_type: str) -> Answer:
    return await api.send("PATCH", path, patch, content_type=content_type)


async def test_merge_patch_merges_removes_and_replaces(api: Api, jobs: str) -> None:
    body = job("a")
    body["metadata"] |= {"labels": {"keep": "1", "drop": "2"}, "finalizers": ["example.com/a"]}
    await api.create(jobs, body)
    metadata = {"labels": {"drop": None, "new": "3"}, "finalizers": ["example.com/b"]}
    patched = await api.merge(f"{jobs}/a", {"metadata": metadata})
    assert patched["metadata"]["labels"] == {"keep": "1", "new": "3"}
    assert patched["metadata"]["finalizers"] == ["example.com/b"]
    await api.merge(f"{jobs}/a", {"metadata": {"finalizers": None}})


async def test_merge_patch_with_the_current_resource_version_passes(
    api: Api, config_maps: str
) -> None:
    created = await api.create(config_maps, config_map("a"))
    lock = {"resourceVersion": created["metadata"]["resourceVersion"]}
    patched = await api.merge(f"{config_maps}/a", {"metadata": lock, "data": {"x": "1"}})
    assert patched["data"] == {"x": "1"}


async def test_merge_patch_with_an_old_resource_version_is_a_conflict(
    api: Api, config_maps: str
) -> None:
    created = await api.create(config_maps, config_map("a"))
    await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
    lock = {"resourceVersion": created["metadata"]["resourceVersion"]}
    answer = await send(api, f"{config_maps}/a", {"metadata": lock, "data": {"x": "2"}}, MERGE)
    status = expect(answer, 409)
    assert status["reason"] == "Conflict"
    assert 'Operation cannot be fulfilled on configmaps "a"' in status["message"]
    assert (await api.get(f"{config_maps}/a"))["data"] == {"x": "1"}


async def test_status_patches_carry_locks_too(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    lock = {"resourceVersion": created["metadata"]["resourceVersion"]}
    patch = {"metadata": lock, "status": {"active": 1}}
    await api.merge(f"{jobs}/a/status", patch)
    patch["status"]["active"] = 2
    assert (await send(api, f"{jobs}/a/status", patch, MERGE)).status == 409


async def test_merge_patch_for_another_incarnation_is_invalid(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    patch = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"x": "1"}}
    status = expect(await send(api, f"{config_maps}/a", patch, MERGE), 422)
    assert status["details"]["causes"][0]["field"] == "metadata.uid"
    assert "field is immutable" in status["message"]


async def test_merge_patch_with_its_uid_passes(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a"))
    patch = {"metadata": {"uid": created["metadata"]["uid"]}, "data": {"x": "1"}}
    assert (await api.merge(f"{config_maps}/a", patch))["data"] == {"x": "1"}


async def test_merge_patch_of_a_missing_object_is_not_found(api: Api, config_maps: str) -> None:
    status = expect(await send(api, f"{config_maps}/a", {}, MERGE), 404)
    assert status["message"] == 'configmaps "a" not found'


async def test_json_patch_applies_in_order(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", {"x": "1"}, annotations={"k": "v"}))
    patch = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "add", "path": "/metadata/annotations/example.com~1k", "value": "3"},
        {"op": "copy", "from": "/data/x", "path": "/data/w"},
    ]
    patched = expect(await send(api, f"{config_maps}/a", patch, JSON_PATCH), 200)
    assert patched["data"] == {"x": "2", "w": "2"}
    assert patched["metadata"]["annotations"] == {"k": "v", "example.com/k": "3"}


async def test_json_patch_whose_test_fails_changes_nothing(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a", {"x": "1"}))
    patch = [
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "test", "path": "/data/x", "value": "9"},
    ]
    assert (await send(api, f"{config_maps}/a", patch, JSON_PATCH)).status == 422
    assert await api.get(f"{config_maps}/a") == created


async def test_json_patch_of_a_missing_path_is_refused(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    patch = [{"op": "remove", "path": "/data/nothing"}]
    assert (await send(api, f"{config_maps}/a", patch, JSON_PATCH)).status == 422


async def test_strategic_merge_patch_merges_lists_by_key(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    patch = {"spec": {"containers": [{"name": "main", "image": "registry.invalid/other"}]}}
    patched = expect(await send(api, f"{pods}/a", patch, STRATEGIC), 200)
    container = patched["spec"]["containers"][0]
    assert container["image"] == "registry.invalid/other"
    assert container["terminationMessagePath"] == "/dev/termination-log"


async def test_strategic_merge_patch_merges_conditions_by_type(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    for type_ in ("Ready", "Initialized", "Ready"):
        patch = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
        patched = expect(await send(api, f"{pods}/a/status", patch, STRATEGIC), 200)
    types = [each["type"] for each in patched["status"]["conditions"]]
    assert sorted(types) == ["Initialized", "Ready"]


async def test_strategic_merge_patch_knows_delete_directives(api: Api, config_maps: str) -> None:
    body = config_map("a", finalizers=["example.com/a", "example.com/b"])
    await api.create(config_maps, body)
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}
    patched = expect(await send(api, f"{config_maps}/a", patch, STRATEGIC), 200)
    assert patched["metadata"]["finalizers"] == ["example.com/b"]
    await api.merge(f"{config_maps}/a", {"metadata": {"finalizers": None}})


async def test_unknown_patch_types_are_refused(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    status = expect(await send(api, f"{config_maps}/a", {}, "application/json"), 415)
    assert status["reason"] == "UnsupportedMediaType"


async def test_a_malformed_patch_is_a_bad_request(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    assert (await send(api, f"{config_maps}/a", "[", MERGE)).status == 400


async def test_a_patch_cannot_rename(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    patch = {"metadata": {"name": "b"}}
    assert (await send(api, f"{config_maps}/a", patch, MERGE)).status in {400, 422}


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        ({"finalizers": ["example.com/z", "example.com/b"]}, "zabc"),
        ({"finalizers": ["example.com/c", "example.com/z"]}, "abcz"),
        ({"$setElementOrder/finalizers": ["example.com/c", "example.com/a"]}, "bca"),
        (
            {
                "$setElementOrder/finalizers": [f"example.com/{each}" for each in "czb"],
                "finalizers": ["example.com/z"],
            },
            "aczb",
        ),
    ],
    ids=["before", "after", "order", "order and more"],
)
async def test_the_order_of_a_patched_list_is_the_patchs(
    api: Api, config_maps: str, patch: dict[str, Any], order: str
) -> None:
    finalizers = [f"example.com/{each}" for each in "abc"]
    await api.create(config_maps, config_map("a", finalizers=finalizers))
    try:
        answer = await send(api, f"{config_maps}/a", {"metadata": patch}, STRATEGIC)
        got = expect(answer, 200)["metadata"]["finalizers"]
        assert "".join(each[-1] for each in got) == order
    finally:
        await api.merge(f"{config_maps}/a", {"metadata": {"finalizers": None}})
