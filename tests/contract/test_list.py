"""Lists: selectors, pages, revisions, representations."""

from typing import Any

import pytest

from tests.contract.client import TABLE, Api, config_map, expect, job, pod, unique


async def make(api: Api, path: str, *names: str, **labels: str) -> None:
    for name in names:
        await api.create(path, config_map(name, labels=labels))


def own(names: list[str]) -> list[str]:
    """Without what a real cluster puts into every namespace."""
    return [name for name in names if name != "kube-root-ca.crt"]


async def test_a_list_says_its_kind_and_revision(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    answer = await api.get(jobs)
    assert (answer["kind"], answer["apiVersion"]) == ("JobList", "batch/v1")
    assert [item["metadata"]["uid"] for item in answer["items"]] == [created["metadata"]["uid"]]
    assert int(answer["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])


async def test_lists_are_in_the_order_of_names(api: Api, config_maps: str) -> None:
    await make(api, config_maps, "c", "a", "b")
    assert own(await api.names(config_maps)) == ["a", "b", "c"]


async def test_a_list_over_all_namespaces(api: Api, namespace: str, config_maps: str) -> None:
    other = unique("other")
    await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    mark = unique("mark")
    await make(api, config_maps, "a", mark=mark)
    await make(api, f"/api/v1/namespaces/{other}/configmaps", "a", mark=mark)
    items = (await api.get("/api/v1/configmaps", labelSelector=f"mark={mark}"))["items"]
    assert {item["metadata"]["namespace"] for item in items} == {namespace, other}
    await api.delete(f"/api/v1/namespaces/{other}")


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("tier=web", ["a"]),
        ("tier==web", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier in (web,db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier in (web,db),size>1", ["b"]),
        ("example.com/x=y", ["c"]),
    ],
)
async def test_label_selectors(api: Api, config_maps: str, selector: str, want: list[str]) -> None:
    await make(api, config_maps, "a", tier="web", size="1", of="test")
    await make(api, config_maps, "b", tier="db", size="2", of="test")
    await make(api, config_maps, "c", **{"example.com/x": "y", "of": "test"})
    assert await api.names(config_maps, labelSelector=f"{selector},of=test") == want


@pytest.mark.parametrize("selector", ["a b", "a in ()b", "a=b=c", "=x", "a in x"])
async def test_malformed_label_selectors_are_refused(
    api: Api, config_maps: str, selector: str
) -> None:
    answer = await api.send("GET", config_maps, labelSelector=selector)
    assert expect(answer, 400)["reason"] == "BadRequest"


async def test_names_are_selectable_fields(api: Api, config_maps: str) -> None:
    await make(api, config_maps, "a", "b")
    assert await api.names(config_maps, fieldSelector="metadata.name=b") == ["b"]
    assert own(await api.names(config_maps, fieldSelector="metadata.name!=b")) == ["a"]
    assert await api.names(config_maps, fieldSelector="metadata.name=b,metadata.name=a") == []


async def test_pods_are_selectable_by_node_and_phase(api: Api, namespace: str, pods: str) -> None:
    await api.create(pods, pod("a"))
    await api.create(pods, pod("b", node="node-of-nobody"))
    assert await api.names(pods, fieldSelector="spec.nodeName=node-of-nobody") == ["b"]
    assert await api.names(pods, fieldSelector="spec.nodeName=") == ["a"]
    assert await api.names(pods, fieldSelector="status.phase=Pending") == ["a", "b"]
    path, query = "/api/v1/pods", f"metadata.namespace={namespace},metadata.name=a"
    assert await api.names(path, fieldSelector=query) == ["a"]


async def test_events_are_selectable_by_what_they_are_about(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/events"
    for name, kind in (("a", "Job"), ("b", "Pod")):
        involved = {"kind": kind, "name": "x", "namespace": namespace}
        event = {"metadata": {"name": name}, "involvedObject": involved, "type": "Normal"}
        await api.create(path, {**event, "reason": "Tested"})
    assert await api.names(path, fieldSelector="involvedObject.kind=Job,type=Normal") == ["a"]
    assert await api.names(path, fieldSelector="reason=Other") == []


@pytest.mark.parametrize(
    "selector", ["data.x=1", "spec.nodeName=a", "metadata.labels=a", "nonsense"]
)
async def test_other_fields_are_not_selectable(api: Api, config_maps: str, selector: str) -> None:
    answer = await api.send("GET", config_maps, fieldSelector=selector)
    assert expect(answer, 400)["reason"] == "BadRequest"


async def pages(api: Api, path: str, **query: Any) -> list[Any]:
    found = [await api.get(path, **query)]
    while token := found[-1]["metadata"].get("continue"):
        found.append(await api.get(path, **{**query, "continue": token}))
    return found


async def test_pages_cover_the_list(api: Api, config_maps: str) -> None:
    await make(api, config_maps, *"abcde", of="test")
    found = await pages(api, config_maps, limit=2, labelSelector="of=test")
    names = [[item["metadata"]["name"] for item in page["items"]] for page in found]
    assert names == [["a", "b"], ["c", "d"], ["e"]]
    revisions = {page["metadata"]["resourceVersion"] for page in found}
    assert len(revisions) == 1


async def test_the_first_page_counts_what_remains(api: Api, jobs: str) -> None:
    for name in "abcde":
        await api.create(jobs, job(name))
    assert (await api.get(jobs, limit=2))["metadata"]["remainingItemCount"] == 3


async def test_later_pages_show_the_state_of_the_first(api: Api, config_maps: str) -> None:
    await make(api, config_maps, *"abcd", of="test")
    query = {"limit": 2, "labelSelector": "of=test"}
    first = await api.get(config_maps, **query)
    await make(api, config_maps, "e", of="test")
    await api.delete(f"{config_maps}/c")
    await api.merge(f"{config_maps}/d", {"data": {"changed": "yes"}})
    token = first["metadata"]["continue"]
    second = await api.get(config_maps, **{**query, "continue": token})
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert "data" not in second["items"][1]


async def test_a_malformed_continue_token_is_refused(api: Api, config_maps: str) -> None:
    answer = await api.send("GET", config_maps, **{"limit": 1, "continue": "nonsense"})
    assert expect(answer, 400)["reason"] == "BadRequest"


async def test_an_exact_revision_shows_the_past(api: Api, config_maps: str) -> None:
    await make(api, config_maps, "a", of="test")
    revision = (await api.get(config_maps))["metadata"]["resourceVersion"]
    await make(api, config_maps, "b", of="test")
    query = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
    assert await api.names(config_maps, labelSelector="of=test", **query) == ["a"]
    newest = (await api.get(f"{config_maps}/b"))["metadata"]["resourceVersion"]
    query = {"resourceVersion": newest, "resourceVersionMatch": "NotOlderThan"}
    assert await api.names(config_maps, labelSelector="of=test", **query) == ["a", "b"]


@pytest.mark.parametrize(
    ("limit", "why"),
    [("x", "invalid syntax"), ("", "invalid syntax"), (10**30, "value out of range")],
)
async def test_a_limit_is_a_number_of_64_bits(
    api: Api, config_maps: str, limit: Any, why: str
) -> None:
    status = expect(await api.send("GET", config_maps, limit=limit), 400)
    assert status["message"] == f'strconv.ParseInt: parsing "{limit}": {why}'


async def test_long_selectors(api: Api, config_maps: str) -> None:
    await make(api, config_maps, "a", of="test")
    names = ",".join(f"value-{number}" for number in range(5000))
    assert await api.names(config_maps, labelSelector=f"of in (test,{names})") == ["a"]


async def test_a_negative_limit_is_none(api: Api, config_maps: str) -> None:
    await make(api, config_maps, "a", "b")
    assert own(await api.names(config_maps, limit=-5)) == ["a", "b"]


@pytest.mark.parametrize(
    ("revision", "why"),
    [("x", "invalid syntax"), ("-1", "invalid syntax"), (2**64, "value out of range")],
)
async def test_a_resource_version_is_a_number_of_64_bits(
    api: Api, config_maps: str, revision: Any, why: str
) -> None:
    status = expect(await api.send("GET", config_maps, resourceVersion=revision), 400)
    assert status["message"] == (
        f'invalid resource version: resourceVersion: Invalid value: "{revision}": '
        f'strconv.ParseUint: parsing "{revision}": {why}'
    )


async def test_a_revision_from_the_future_times_out(api: Api, config_maps: str) -> None:
    answer = await api.send("GET", config_maps, resourceVersion=2**60)
    status = expect(answer, 504)
    assert status["reason"] == "Timeout"
    assert "Too large resource version" in status["message"]


async def test_lists_and_objects_as_tables(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    headers = {"Accept": TABLE}
    table = await api.get(jobs, headers=headers)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["columnDefinitions"][0]["name"] == "Name"
    assert table["rows"][0]["cells"][0] == "a"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["resourceVersion"]
    single = await api.get(f"{jobs}/a", headers=headers, includeObject="Object")
    assert single["rows"][0]["object"]["kind"] == "Job"
    bare = await api.get(jobs, headers=headers, includeObject="None")
    assert bare["rows"][0].get("object") is None


async def test_metadata_only(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = await api.get(jobs, headers={"Accept": accept})
    assert answer["kind"] == "PartialObjectMetadataList"
    assert set(answer["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_unknown_representations_are_not_acceptable(api: Api, config_maps: str) -> None:
    answer = await api.send("GET", config_maps, headers={"Accept": "text/html"})
    assert answer.status == 406


async def test_a_missing_object_is_not_found(api: Api, jobs: str) -> None:
    status = expect(await api.send("GET", f"{jobs}/a"), 404)
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'jobs.batch "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "group": "batch", "kind": "jobs"},
        "code": 404,
    }


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/nothing", "/apis/none.example/v1/nothing"])
async def test_unknown_paths_are_not_found(api: Api, path: str) -> None:
    assert (await api.send("GET", path)).status == 404
