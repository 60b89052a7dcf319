"""Update: whole objects, the status subresource, generations and locks."""

import pytest

from tests.contract.client import MERGE, Api, config_map, expect, job

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


async def test_put_replaces_the_object(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a", {"x": "1", "y": "2"}))
    replaced = await api.put(f"{config_maps}/a", {**created, "data": {"z": "3"}})
    assert replaced["data"] == {"z": "3"}
    assert int(replaced["metadata"]["resourceVersion"]) > int(
        created["metadata"]["resourceVersion"]
    )
    assert replaced["metadata"]["uid"] == created["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == created["metadata"]["creationTimestamp"]


async def test_put_of_an_old_state_is_a_conflict(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    await api.merge(f"{jobs}/a", {"metadata": {"labels": {"x": "y"}}})
    status = expect(await api.send("PUT", f"{jobs}/a", created), 409)
    assert status["reason"] == "Conflict"
    assert status["message"] == f'Operation cannot be fulfilled on jobs.batch "a": {MODIFIED}'
    assert status["details"] == {"name": "a", "group": "batch", "kind": "jobs"}


async def test_put_without_resource_version_wins(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a", {"x": "1"}))
    assert (await api.put(f"{config_maps}/a", config_map("a", {"x": "2"})))["data"] == {"x": "2"}


async def test_put_of_another_incarnation_is_a_conflict(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    body = config_map("a", uid="00000000-0000-0000-0000-000000000000")
    status = expect(await api.send("PUT", f"{config_maps}/a", body), 409)
    assert "Precondition failed: UID in precondition: 00000000" in status["message"]


async def test_put_cannot_rename(api: Api, config_maps: str) -> None:
    await api.create(config_maps, config_map("a"))
    status = expect(await api.send("PUT", f"{config_maps}/a", config_map("b")), 400)
    assert "the name of the object (b" in status["message"]
    assert "does not match the name on the URL (a" in status["message"]


async def test_put_of_a_missing_object_is_not_found(api: Api, config_maps: str) -> None:
    status = expect(await api.send("PUT", f"{config_maps}/a", config_map("a")), 404)
    assert status["message"] == 'configmaps "a" not found'


async def test_put_creates_objects_of_some_kinds(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/a"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    tried = await api.send("PUT", path, body, dryRun="All")
    assert tried.status == 201
    assert (await api.send("GET", path)).status == 404
    old = {**body, "metadata": {"name": "a", "resourceVersion": "5"}}
    created = expect(await api.send("PUT", path, old), 201)
    assert created["metadata"]["uid"]
    again = await api.send("PUT", path, {**body, "metadata": created["metadata"]})
    assert again.status == 200


async def test_put_that_creates_must_name_the_object_of_the_path(api: Api, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    other = await api.send("PUT", f"{leases}/a", {**body, "metadata": {"name": "b"}})
    assert other.status == 400
    elsewhere = leases.replace(namespace, "none")
    gone = await api.send("PUT", f"{elsewhere}/a", {**body, "metadata": {"name": "a"}})
    assert (gone.status, gone.body["message"]) == (404, 'namespaces "none" not found')


async def test_some_kinds_are_replaced_in_a_named_state_only(api: Api, namespace: str) -> None:
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    await api.create(leases, body)
    status = expect(await api.send("PUT", f"{leases}/a", body), 422)
    assert status["message"] == (
        'leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: '
        "Invalid value: 0: must be specified for an update"
    )
    assert status["details"]["kind"] == "leases"


async def test_an_update_that_changes_nothing_keeps_the_resource_version(
    api: Api, config_maps: str
) -> None:
    created = await api.create(config_maps, config_map("a", {"x": "1", "y": "2"}))
    again = await api.put(f"{config_maps}/a", config_map("a", {"y": "2", "x": "1"}))
    patched = await api.merge(f"{config_maps}/a", {"data": {"x": "1"}})
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_generation_counts_changes_of_the_spec_only(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    labelled = await api.merge(f"{jobs}/a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled["metadata"]["generation"] == 1
    changed = await api.merge(f"{jobs}/a", {"spec": {"parallelism": 3}})
    assert changed["metadata"]["generation"] == 2
    same = await api.merge(f"{jobs}/a", {"spec": {"parallelism": 3}})
    assert same["metadata"]["generation"] == 2


async def test_status_has_its_own_endpoint(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    ignored = await api.merge(f"{jobs}/a", {"status": {"active": 1}})
    assert "active" not in ignored["status"]
    patch = {"status": {"active": 1}, "spec": {"parallelism": 9}}
    patched = await api.merge(f"{jobs}/a/status", patch)
    assert patched["status"]["active"] == 1
    assert patched["spec"]["parallelism"] == 1
    assert patched["metadata"]["generation"] == 1
    assert await api.get(f"{jobs}/a/status") == await api.get(f"{jobs}/a") == patched


async def test_updates_of_the_object_keep_the_status(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    await api.merge(f"{jobs}/a/status", {"status": {"active": 1}})
    del created["status"], created["metadata"]["resourceVersion"]
    created["spec"]["parallelism"] = 2
    assert (await api.put(f"{jobs}/a", created))["status"]["active"] == 1


async def test_put_of_a_status_checks_the_resource_version(api: Api, jobs: str) -> None:
    created = await api.create(jobs, job("a"))
    await api.merge(f"{jobs}/a/status", {"status": {"active": 1}})
    assert (await api.send("PUT", f"{jobs}/a/status", created)).status == 409


async def test_immutable_fields_are_refused(api: Api, jobs: str) -> None:
    await api.create(jobs, job("a"))
    patch = {"spec": {"completionMode": "Indexed"}}
    answer = await api.send("PATCH", f"{jobs}/a", patch, content_type=MERGE)
    status = expect(answer, 422)
    assert status["message"].startswith('Job.batch "a" is invalid: spec.completionMode: Invalid')
    assert "field is immutable" in status["message"]
    assert status["details"]["kind"] == "Job"
    assert status["details"]["group"] == "batch"


async def test_dry_run_changes_nothing(api: Api, config_maps: str) -> None:
    created = await api.create(config_maps, config_map("a", {"x": "1"}))
    shown = await api.merge(f"{config_maps}/a", {"data": {"x": "2"}}, dryRun="All")
    assert shown["data"] == {"x": "2"}
    assert await api.get(f"{config_maps}/a") == created


@pytest.mark.parametrize("method", ["POST", "PROPFIND"])
async def test_objects_know_no_other_methods(api: Api, config_maps: str, method: str) -> None:
    await api.create(config_maps, config_map("a"))
    answer = await api.send(method, f"{config_maps}/a", config_map("a"))
    assert answer.status == 405
    assert answer.body["reason"] == "MethodNotAllowed"
