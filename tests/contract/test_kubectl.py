"""What people do with kubectl, through a real kubectl, over TLS."""

import asyncio
import json

import pytest
import yaml

from tests.contract.client import config_map, job, unique
from tests.contract.kubectl import Kubectl
from tests.contract.test_crds import definition, widget

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]


async def test_create_get_and_delete(kubectl: Kubectl) -> None:
    assert await kubectl("create", "-f", "-", stdin=job("a")) == "job.batch/a created\n"
    table = (await kubectl("get", "jobs")).splitlines()
    assert table[0].split() == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    cells = table[1].split()
    assert (cells[0], cells[2]) == ("a", "0/1")
    shown = yaml.safe_load(await kubectl("get", "job", "a", "-o", "yaml"))
    assert shown["spec"]["backoffLimit"] == 6
    assert await kubectl("get", "jobs", "-o", "name") == "job.batch/a\n"
    assert "deleted" in await kubectl("delete", "job", "a")
    outcome = await kubectl.run("get", "job", "a")
    assert outcome.err == 'Error from server (NotFound): jobs.batch "a" not found\n'


async def test_apply_creates_configures_and_leaves_alone(kubectl: Kubectl) -> None:
    body = config_map("a", {"x": "1"})
    assert await kubectl("apply", "-f", "-", stdin=body) == "configmap/a created\n"
    assert await kubectl("apply", "-f", "-", stdin=body) == "configmap/a unchanged\n"
    body["data"] = {"y": "2"}
    assert await kubectl("apply", "-f", "-", stdin=body) == "configmap/a configured\n"
    assert json.loads(await kubectl("get", "cm", "a", "-o", "jsonpath={.data}")) == {"y": "2"}


async def test_server_side_apply_tells_conflicts_and_takes_over(kubectl: Kubectl) -> None:
    body, apply = config_map("a", {"x": "1"}), ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, stdin=body) == "configmap/a serverside-applied\n"
    body["data"]["x"] = "2"
    refused = await kubectl.run(*apply, "--field-manager=other", stdin=body)
    assert 'conflict with "kubectl": .data.x' in refused.err
    await kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=body)
    path = "jsonpath={.metadata.managedFields[*].manager}"
    assert await kubectl("get", "cm", "a", "-o", path) == "other"


async def test_client_side_apply_goes_over_to_server_side_apply(kubectl: Kubectl) -> None:
    body = config_map("a", {"x": "1", "y": "1"})
    await kubectl("apply", "-f", "-", stdin=body)
    body["data"] = {"x": "2"}
    await kubectl("apply", "--server-side", "-f", "-", stdin=body)
    assert json.loads(await kubectl("get", "cm", "a", "-o", "jsonpath={.data}")) == {"x": "2"}
    noted = await kubectl("apply", "view-last-applied", "cm/a", "-o", "json")
    assert json.loads(noted)["data"] == {"x": "2"}


async def test_apply_merges_lists_of_built_in_kinds_by_key(kubectl: Kubectl) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "one", "image": "one"}]},
            },
        },
    }
    await kubectl("apply", "-f", "-", stdin=deployment)
    containers = deployment["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "two", "image": "two"})
    await kubectl("apply", "-f", "-", stdin=deployment)
    containers.pop(0)
    await kubectl("apply", "-f", "-", stdin=deployment)
    path = "jsonpath={.spec.template.spec.containers[*].name}"
    assert await kubectl("get", "deployment", "a", "-o", path) == "two"
    assert "scaled" in await kubectl("scale", "deployment", "a", "--replicas=3")
    assert await kubectl("get", "deployment", "a", "-o", "jsonpath={.spec.replicas}") == "3"


async def test_patch_label_annotate_and_replace(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=config_map("a", {"x": "1"}))
    assert "patched" in await kubectl("patch", "cm", "a", "-p", '{"data":{"y":"2"}}')
    patch = '[{"op":"remove","path":"/data/x"}]'
    await kubectl("patch", "cm", "a", "--type=json", "-p", patch)
    await kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"z":"3"}}')
    assert "labeled" in await kubectl("label", "cm", "a", "tier=web")
    assert "annotated" in await kubectl("annotate", "cm", "a", "note=this")
    assert await kubectl("get", "cm", "-l", "tier=web", "-o", "name") == "configmap/a\n"
    outcome = await kubectl.run("label", "cm", "a", "tier=db")
    assert "already has a value (web), and --overwrite is false" in outcome.err
    assert "replaced" in await kubectl("replace", "-f", "-", stdin=config_map("a", {"w": "4"}))
    assert json.loads(await kubectl("get", "cm", "a", "-o", "jsonpath={.data}")) == {"w": "4"}


async def test_wait_for_a_condition_and_for_deletion(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=job("a"))
    waiting = await kubectl.start("wait", "--for=condition=Complete", "job/a", "--timeout=30s")
    now = "2026-01-01T00:00:00Z"
    types = ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": type_, "status": "True"} for type_ in types]
    status = {
        "startTime": now,
        "completionTime": now,
        "succeeded": 1,
        "conditions": conditions,
    }
    patch = json.dumps({"status": status})
    await kubectl("patch", "job", "a", "--subresource=status", "--type=merge", "-p", patch)
    out, err = await asyncio.wait_for(waiting.communicate(), 40)
    assert out == b"job.batch/a condition met\n", err
    waiting = await kubectl.start("wait", "--for=delete", "job/a", "--timeout=30s")
    await kubectl("delete", "job", "a")
    assert (await asyncio.wait_for(waiting.communicate(), 40))[1] == b""
    assert waiting.returncode == 0


async def test_get_with_watch_prints_changes(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=job("a"))
    watching = await kubectl.start("get", "jobs", "--watch")
    assert watching.stdout is not None
    header, first = [await asyncio.wait_for(watching.stdout.readline(), 30) for _ in range(2)]
    await kubectl("patch", "job", "a", "-p", '{"spec":{"suspend":false}}')
    second = await asyncio.wait_for(watching.stdout.readline(), 30)
    watching.terminate()
    await watching.communicate()
    assert header.startswith(b"NAME")
    assert first.split()[0] == second.split()[0] == b"a"


async def test_describe_and_events(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=job("a"))
    uid = await kubectl("get", "job", "a", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "a",
            "namespace": kubectl.namespace,
            "uid": uid,
        },
        "type": "Normal",
        "reason": "Tested",
        "message": "it was looked at",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await kubectl("create", "-f", "-", stdin=event)
    described = await kubectl("describe", "job", "a")
    assert "Name:             a" in described
    assert "it was looked at" in described
    assert "it was looked at" in await kubectl("events", "--for", "job/a")


async def test_explain_knows_built_in_and_custom_kinds(kubectl: Kubectl) -> None:
    assert "suspend" in await kubectl("explain", "job.spec")
    group = f"{unique('g')}.example.com"
    await kubectl("apply", "-f", "-", stdin=definition(group))
    await kubectl.until("wait", "--for=condition=Established", f"crd/widgets.{group}")
    explained = await kubectl.until("explain", "widgets.spec.size", f"--api-version={group}/v1")
    assert "FIELD: size <integer>" in explained
    await kubectl("delete", "crd", f"widgets.{group}")


async def test_custom_objects(kubectl: Kubectl) -> None:
    group = f"{unique('g')}.example.com"
    await kubectl("apply", "-f", "-", stdin=definition(group))
    await kubectl.until("wait", "--for=condition=Established", f"crd/widgets.{group}")
    resource = f"widgets.{group}"
    assert await kubectl("apply", "-f", "-", stdin=widget(group)) == f"widget.{group}/a created\n"
    assert await kubectl("apply", "-f", "-", stdin=widget(group)) == f"widget.{group}/a unchanged\n"
    changed = widget(group, size=2)
    assert await kubectl("apply", "-f", "-", stdin=changed) == f"widget.{group}/a configured\n"
    assert (await kubectl("get", resource)).splitlines()[0].split() == ["NAME", "AGE"]
    assert "scaled" in await kubectl("scale", resource, "a", "--replicas=3")
    refused = await kubectl.run("apply", "-f", "-", stdin=widget(group, size=0))
    assert "spec.size: Invalid value: 0: spec.size in body should be greater than" in refused.err
    strict = await kubectl.run("apply", "-f", "-", stdin=widget(group, nonsense=1))
    assert 'unknown field "spec.nonsense"' in strict.err
    await kubectl("delete", "crd", resource)


async def test_create_job_on_the_client_side(kubectl: Kubectl) -> None:
    text = await kubectl("create", "job", "a", "--image=busybox", "--dry-run=client", "-o", "yaml")
    await kubectl("create", "-f", "-", stdin=yaml.safe_load(text))
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "job", "a", "-o", image) == "busybox"


async def test_server_dry_run_and_diff(kubectl: Kubectl) -> None:
    body = config_map("a", {"x": "1"})
    shown = await kubectl("create", "-f", "-", "--dry-run=server", stdin=body)
    assert shown == "configmap/a created (server dry run)\n"
    assert (await kubectl.run("get", "cm", "a")).code == 1
    await kubectl("apply", "-f", "-", stdin=body)
    body["data"]["x"] = "2"
    outcome = await kubectl.run("diff", "-f", "-", stdin=body)
    assert outcome.code == 1
    assert '+  x: "2"' in outcome.out


async def test_deleting_everything_in_a_namespace(kubectl: Kubectl) -> None:
    for name in "abc":
        await kubectl("create", "-f", "-", stdin=job(name))
    out = await kubectl("delete", "jobs", "--all")
    assert out.count("deleted") == 3
    assert (await kubectl.run("get", "jobs")).err.startswith("No resources found in")


async def test_raw_paths_and_health(kubectl: Kubectl) -> None:
    assert await kubectl("get", "--raw", "/readyz") == "ok"
    listed = json.loads(await kubectl("get", "--raw", "/api/v1/namespaces"))
    assert listed["kind"] == "NamespaceList"
    assert "jobs" in await kubectl("api-resources", "--api-group=batch", "-o", "name")


async def test_unknown_kinds_are_named(kubectl: Kubectl) -> None:
    outcome = await kubectl.run("get", "gizmos")
    assert 'the server doesn\'t have a resource type "gizmos"' in outcome.err


async def test_kinds_that_can_only_be_created(kubectl: Kubectl) -> None:
    """For these kubectl asks for the old OpenAPI document, as protobuf."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    shown = await kubectl("create", "-f", "-", "-o", "json", stdin=review)
    assert json.loads(shown)["status"]["userInfo"]["username"]
