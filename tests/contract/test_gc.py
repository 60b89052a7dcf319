"""Owner references: who goes when an owner goes."""

import asyncio

from tests.contract.client import Api, config_map, owner

ABSENT = "00000000-0000-0000-0000-000000000001"


async def family(api: Api, path: str, **reference: bool) -> dict:
    """An owner, its child, its grandchild."""
    parent = await api.create(path, config_map("parent"))
    child = config_map("child", ownerReferences=[owner(parent, **reference)])
    child = await api.create(path, child)
    await api.create(path, config_map("grandchild", ownerReferences=[owner(child)]))
    return parent


async def test_background_deletion_takes_dependents_along(api: Api, config_maps: str) -> None:
    await family(api, config_maps)
    await api.delete(f"{config_maps}/parent", {"propagationPolicy": "Background"})
    await api.until_gone(f"{config_maps}/child")
    await api.until_gone(f"{config_maps}/grandchild")


async def test_orphans_stay_without_their_owner(api: Api, config_maps: str) -> None:
    await family(api, config_maps)
    await api.delete(f"{config_maps}/parent", {"propagationPolicy": "Orphan"})
    await api.until_gone(f"{config_maps}/parent")
    answer = await api.until(
        f"{config_maps}/child", lambda each: "ownerReferences" not in each.body["metadata"]
    )
    assert answer.status == 200


async def test_foreground_deletion_waits_for_dependents(api: Api, config_maps: str) -> None:
    parent = await api.create(config_maps, config_map("parent"))
    reference = owner(parent, blockOwnerDeletion=True)
    child = config_map("child", ownerReferences=[reference], finalizers=["example.com/hold"])
    await api.create(config_maps, child)
    answer = await api.send("DELETE", f"{config_maps}/parent", {"propagationPolicy": "Foreground"})
    assert answer.status == 200
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    await api.until(
        f"{config_maps}/child", lambda each: "deletionTimestamp" in each.body["metadata"]
    )
    assert (await api.send("GET", f"{config_maps}/parent")).status == 200
    await api.merge(f"{config_maps}/child", {"metadata": {"finalizers": None}})
    await api.until_gone(f"{config_maps}/parent")


async def test_foreground_deletion_does_not_wait_for_others(api: Api, config_maps: str) -> None:
    parent = await api.create(config_maps, config_map("parent"))
    child = config_map("child", ownerReferences=[owner(parent)], finalizers=["example.com/hold"])
    await api.create(config_maps, child)
    await api.delete(f"{config_maps}/parent", {"propagationPolicy": "Foreground"})
    await api.until_gone(f"{config_maps}/parent")
    await api.merge(f"{config_maps}/child", {"metadata": {"finalizers": None}})


async def test_one_living_owner_is_enough(api: Api, config_maps: str) -> None:
    one = await api.create(config_maps, config_map("one"))
    two = await api.create(config_maps, config_map("two"))
    await api.create(config_maps, config_map("child", ownerReferences=[owner(one), owner(two)]))
    await api.delete(f"{config_maps}/one")
    await api.until(
        f"{config_maps}/child",
        lambda each: each.body["metadata"].get("ownerReferences") == [owner(two)],
    )
    await api.delete(f"{config_maps}/two")
    await api.until_gone(f"{config_maps}/child")


async def test_an_owner_that_never_was_is_like_one_that_is_gone(api: Api, config_maps: str) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": ABSENT}
    await api.create(config_maps, config_map("child", ownerReferences=[reference]))
    await api.until_gone(f"{config_maps}/child")


async def test_owners_of_unknown_kinds_are_left_alone(api: Api, config_maps: str) -> None:
    reference = {"apiVersion": "no.example/v1", "kind": "Nothing", "name": "x", "uid": ABSENT}
    await api.create(config_maps, config_map("child", ownerReferences=[reference]))
    await asyncio.sleep(0.3)
    assert (await api.send("GET", f"{config_maps}/child")).status == 200
