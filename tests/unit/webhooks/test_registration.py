from __future__ import annotations

import base64

import msgspec

from multiqueue.api.config import Configuration, load_configuration
from multiqueue.api.v1alpha1 import JobKindSpec
from multiqueue.jobs.declared.adapter import build_declared
from multiqueue.jobs.declared.compiled import compile_kind
from multiqueue.jobs.declared.kind import DeclaredKind
from multiqueue.jobs.setup import build_registry
from multiqueue.webhooks.addresses import Address
from multiqueue.webhooks.registration import build_configurations
from tests.builders.job_kinds import make_job_kind

URL = Address(url="https://127.0.0.1:9443")
SERVICE = Address(service_name="svc", service_namespace="ns")
QUEUE = "kueue.x-k8s.io/queue-name"


def hooks(
    config: Configuration | None = None, address: Address = URL, authority: bytes = b"ca"
) -> dict[str, dict]:
    configurations = build_configurations(
        config or Configuration(), build_registry(config or Configuration()), address, authority
    )
    return {hook["name"]: hook for each in configurations for hook in each["webhooks"]}


def test_jobs_without_a_queue_are_never_blocked() -> None:
    for name, hook in hooks().items():
        if hook["rules"][0]["apiGroups"] != ["batch"]:
            continue
        (selector,) = hook["objectSelector"]["matchExpressions"]
        assert selector["key"] == QUEUE
        assert selector["operator"] == "Exists" or hook["failurePolicy"] == "Ignore", name


def test_system_namespaces_are_never_blocked() -> None:
    (expression,) = hooks()["vjob.kb.io"]["namespaceSelector"]["matchExpressions"]
    assert expression["operator"] == "NotIn"
    assert expression["values"] == ["kube-system", "kueue-system"]


def test_all_jobs_are_seen_where_all_are_managed() -> None:
    got = hooks(load_configuration("manageJobsWithoutQueueName: true"))
    assert got["mjob.kb.io"]["objectSelector"] == {}
    assert got["vjob.kb.io"]["objectSelector"] == {}
    assert "mjobdefault.kb.io" not in got


def test_what_the_crds_check_well_enough_is_ignored_in_an_outage() -> None:
    policies = {name: hook["failurePolicy"] for name, hook in hooks().items()}
    assert policies["vclusterqueue.kb.io"] == "Fail"
    assert policies["vworkload.kb.io"] == "Fail"
    assert policies["vlocalqueue.kb.io"] == "Ignore"
    assert policies["mjobdefault.kb.io"] == "Ignore"


def test_the_status_of_workloads_is_checked() -> None:
    rule = hooks()["vworkload.kb.io"]["rules"][0]
    assert rule["resources"] == ["workloads", "workloads/status"]
    assert hooks()["vtopology.kb.io"]["rules"][0]["resources"] == ["topologies"]


def test_addresses() -> None:
    by_url = hooks()["mjob.kb.io"]["clientConfig"]
    assert by_url == {
        "url": "https://127.0.0.1:9443/mutate-batch-v1-job",
        "caBundle": base64.b64encode(b"ca").decode(),
    }
    by_service = hooks(address=SERVICE, authority=b"")["mjob.kb.io"]["clientConfig"]
    assert by_service == {
        "service": {"name": "svc", "namespace": "ns", "path": "/mutate-batch-v1-job", "port": 443}
    }


def test_every_hook_is_free_of_side_effects() -> None:
    assert {hook["sideEffects"] for hook in hooks().values()} == {"None"}


def test_kinds_that_are_not_queued_cost_a_call_only_with_a_label_and_fail_nothing() -> None:
    hook = hooks()["unqueued.multiqueue.dev"]
    assert hook["objectSelector"] == {"matchExpressions": [{"key": QUEUE, "operator": "Exists"}]}
    assert hook["namespaceSelector"] == hooks()["vjob.kb.io"]["namespaceSelector"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
    rules = {rule["apiGroups"][0]: rule["resources"] for rule in hook["rules"]}
    assert rules[""] == ["pods"]
    assert rules["batch"] == ["cronjobs"]
    assert rules["ray.io"] == ["rayclusters", "rayjobs", "rayservices"]


def test_a_declared_kind_has_webhooks_of_its_own_beside_a_kind_of_the_same_name() -> None:
    spec = make_job_kind(group="batch.example.com", kind="Job", plural="jobs")["spec"]
    declared = build_declared(DeclaredKind(compile_kind(msgspec.convert(spec, JobKindSpec))))
    config = Configuration()
    registry = build_registry(config, declared)
    made = build_configurations(config, registry, URL, b"ca")
    found = {hook["name"]: hook for each in made for hook in each["webhooks"]}
    assert "mjob.kb.io" in found
    hook = found["vjob.batch.example.com.kb.io"]
    assert hook["clientConfig"]["url"] == "https://127.0.0.1:9443/validate-declared-jobs"
    assert hook["rules"][0]["resources"] == ["jobs"]
    assert hook["objectSelector"]["matchExpressions"][0]["key"] == QUEUE
    registry.remove(declared)
    made = build_configurations(config, registry, URL, b"ca")
    assert not [h for each in made for h in each["webhooks"] if "example.com" in h["name"]]
