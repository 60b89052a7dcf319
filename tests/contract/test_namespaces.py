"""Namespaces: their life and what it means for their content."""

from tests.contract.client import Api, config_map, expect, job, unique

FINALIZER = "example.com/hold"


async def test_initial_namespaces_are_there(api: Api) -> None:
    names = await api.names("/api/v1/namespaces")
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= set(names)


async def test_a_new_namespace_is_active_and_labelled(api: Api, namespace: str) -> None:
    obj = await api.get(f"/api/v1/namespaces/{namespace}")
    assert obj["status"]["phase"] == "Active"
    assert obj["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace
    assert obj["spec"]["finalizers"] == ["kubernetes"]


async def test_a_deleted_namespace_takes_its_content_along(api: Api) -> None:
    name = unique("contract")
    path = f"/api/v1/namespaces/{name}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await api.create(f"{path}/configmaps", config_map("a"))
    await api.create(f"/apis/batch/v1/namespaces/{name}/jobs", job("a"))
    await api.delete(path)
    await api.until_gone(path)
    assert (await api.send("GET", f"{path}/configmaps/a")).status == 404
    assert (await api.send("GET", f"/apis/batch/v1/namespaces/{name}/jobs/a")).status == 404


async def test_a_terminating_namespace_waits_and_takes_nothing_new(api: Api) -> None:
    name = unique("contract")
    path = f"/api/v1/namespaces/{name}"
    await api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    await api.create(f"{path}/configmaps", config_map("a", finalizers=[FINALIZER]))
    terminating = await api.delete(path)
    assert terminating["status"]["phase"] == "Terminating"
    assert terminating["metadata"]["deletionTimestamp"]
    status = expect(await api.send("POST", f"{path}/configmaps", config_map("b")), 403)
    assert status["reason"] == "Forbidden"
    assert "because it is being terminated" in status["message"]
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    await api.until(
        f"{path}/configmaps/a", lambda each: "deletionTimestamp" in each.body["metadata"]
    )
    await api.merge(f"{path}/configmaps/a", {"metadata": {"finalizers": None}})
    await api.until_gone(path)


async def test_some_namespaces_stay(api: Api) -> None:
    status = expect(await api.send("DELETE", "/api/v1/namespaces/kube-system"), 403)
    assert "this namespace may not be deleted" in status["message"]
