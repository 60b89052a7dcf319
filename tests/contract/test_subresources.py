"""Subresources besides status and scale, and a few built-in kinds."""

from tests.contract.client import Api, config_map, expect, pod, unique


async def test_binding_puts_a_pod_on_a_node(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "nobodys-node"},
    }
    status = await api.create(f"{pods}/a/binding", body)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    bound = await api.get(f"{pods}/a")
    assert bound["spec"]["nodeName"] == "nobodys-node"
    conditions = {each["type"]: each["status"] for each in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    assert (await api.send("POST", f"{pods}/a/binding", body)).status == 409


async def test_eviction_deletes_a_pod(api: Api, pods: str) -> None:
    await api.create(pods, pod("a"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    status = await api.create(f"{pods}/a/eviction", body)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    await api.until_gone(f"{pods}/a")


async def test_unknown_subresources_are_not_found(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    assert (await api.send("GET", f"{config_maps}/a/status")).status == 404
    assert (await api.send("GET", f"{config_maps}/a/nonsense")).status == 404


async def test_a_lease_lives(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    name = unique("lease")
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15}
    created = await api.create(path, {"metadata": {"name": name}, "spec": spec})
    created["spec"]["holderIdentity"] = "you"
    taken = await api.put(f"{path}/{name}", created)
    assert taken["spec"]["holderIdentity"] == "you"
    created["spec"]["holderIdentity"] = "they"
    assert expect(await api.send("PUT", f"{path}/{name}", created), 409)["reason"] == "Conflict"


async def test_secrets_take_plain_strings(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    created = await api.create(path, {"metadata": {"name": "a"}, "stringData": {"x": "abc"}})
    assert created["data"] == {"x": "YWJj"}
    assert created["type"] == "Opaque"
    assert "stringData" not in created
