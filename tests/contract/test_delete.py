"""Deletion: at once, after finalizers, after a grace period, and with conditions."""

from typing import Any

import pytest

from tests.contract.client import MERGE, Api, config_map, expect, job, pod

FINALIZER = "example.com/hold"


async def test_a_deleted_object_is_gone(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a"))
    status = await api.delete(f"{config_maps}/a")
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": created["metadata"]["uid"],
    }
    assert (await api.send("GET", f"{config_maps}/a")).status == 404


async def test_deleting_what_is_not_there(api: Api, config_maps: str) -> None:
    assert expect(await api.send("DELETE", f"{config_maps}/a"), 404)["reason"] == "NotFound"


@pytest.mark.parametrize(
    ("precondition", "words"),
    [
        ({"uid": "00000000-0000-0000-0000-000000000000"}, "the UID in the precondition (00000000"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1)"),
    ],
)
async def test_preconditions(
    api: Api, config_maps: str, precondition: dict[str, Any], words: str
) -> None:
    created = await api.create(config_maps, config_map("a"))
    answer = await api.send("DELETE", f"{config_maps}/a", {"preconditions": precondition})
    status = expect(answer, 409)
    assert status["reason"] == "Conflict"
    assert words in status["message"]
    fitting = {name: created["metadata"][name] for name in precondition}
    await api.delete(f"{config_maps}/a", {"preconditions": fitting})


async def test_finalizers_hold_an_object(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", finalizers=[FINALIZER]))
    waiting = await api.delete(f"{config_maps}/a")
    assert waiting["metadata"]["deletionTimestamp"].endswith("Z")
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await api.delete(f"{config_maps}/a")
    assert again["metadata"]["deletionTimestamp"] == waiting["metadata"]["deletionTimestamp"]
    await api.merge(f"{config_maps}/a", {"metadata": {"finalizers": None}})
    assert (await api.send("GET", f"{config_maps}/a")).status == 404


async def test_removing_the_last_finalizer_is_told_as_deletion(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", finalizers=[FINALIZER]))
    waiting = await api.delete(f"{config_maps}/a")
    start = waiting["metadata"]["resourceVersion"]
    async with api.watch(config_maps, resourceVersion=start) as watch:
        await api.merge(f"{config_maps}/a", {"metadata": {"finalizers": []}})
        assert await watch.next_names(1) == [("DELETED", "a")]


async def test_no_finalizer_can_join_late(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", finalizers=[FINALIZER]))
    await api.delete(f"{config_maps}/a")
    patch = {"metadata": {"finalizers": [FINALIZER, "example.com/late"]}}
    answer = await api.send("PATCH", f"{config_maps}/a", patch, content_type=MERGE)
    status = expect(answer, 422)
    assert "metadata.finalizers: Forbidden: no new finalizers can be added" in status["message"]
    await api.merge(f"{config_maps}/a", {"metadata": {"finalizers": None}})


async def test_deletion_counts_as_a_change_of_the_wanted_state(api: Api, jobs: str) -> None:
    body = job("a")
    body["metadata"]["finalizers"] = [FINALIZER]
    await api.create(jobs, body)
    waiting = await api.delete(f"{jobs}/a", {"propagationPolicy": "Background"})
    assert waiting["metadata"]["generation"] == 2
    await api.merge(f"{jobs}/a", {"metadata": {"finalizers": None}})


async def test_a_pod_without_a_node_is_gone_at_once(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    await api.delete(f"{pods}/a")
    assert (await api.send("GET", f"{pods}/a")).status == 404


async def test_a_pod_on_a_node_waits_for_its_kubelet(api: Api, pods: str) -> None:
    await api.create(pods, pod("a", node="nobodys-node"))
    waiting = await api.delete(f"{pods}/a")
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = await api.delete(f"{pods}/a", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await api.delete(f"{pods}/a", {"gracePeriodSeconds": 60})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(f"{pods}/a", {"gracePeriodSeconds": 0})
    assert (await api.send("GET", f"{pods}/a")).status == 404


async def test_a_finished_pod_is_gone_at_once(api: Api, pods: str) -> None:
    await api.create(pods, pod("a", node="nobodys-node"))
    await api.merge(f"{pods}/a/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{pods}/a")
    assert (await api.send("GET", f"{pods}/a")).status == 404


async def test_dry_run_deletes_nothing(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    await api.delete(f"{config_maps}/a", {"dryRun": ["All"]})
    await api.delete(f"{config_maps}/a", dryRun="All")
    assert await api.get(f"{config_maps}/a")


async def test_a_collection_is_deleted_by_selector(api: Api, config_maps: str) -> None:
    for name, tier in (("a", "web"), ("b", "web"), ("c", "db")):
        await api.create(config_maps, config_map(name, labels={"tier": tier}))
    answer = await api.delete(config_maps, labelSelector="tier=web")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    assert await api.names(config_maps, labelSelector="tier") == ["c"]


async def test_unknown_propagation_policies_are_refused(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    answer = await api.send("DELETE", f"{config_maps}/a", {"propagationPolicy": "Sideways"})
    assert answer.status in {400, 422}


async def test_deleted_jobs_warn_that_their_pods_stay(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    answer = await api.send("DELETE", f"{jobs}/a")
    assert answer.status == 200
    assert any("child pods are preserved by default" in each for each in answer.warnings)
