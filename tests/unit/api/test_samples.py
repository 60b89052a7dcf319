"""What we publish, and what published guides tell people to apply, is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from multiqueue.api.config import Configuration, Gates
from multiqueue.api.conversion.convert import convert
from multiqueue.api.crd import load_crds
from multiqueue.api.names import GROUP, V1ALPHA1
from multiqueue.api.validation.kinds import RULES
from multiqueue.embedded.server.custom import kind_from_crd
from multiqueue.embedded.server.schema import admit
from multiqueue.jobs.batch_job.webhook import default_job, validate_job_create
from tests.unit.webhooks.lookups import Queues

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "config" / "samples"
WORKER_SAMPLES = ROOT / "config" / "samples-worker"
PROVISIONING_SAMPLES = ROOT / "config" / "samples-provisioning"
DISPATCH_SAMPLES = ROOT / "config" / "samples-dispatch"
DISRUPTION_SAMPLES = ROOT / "config" / "samples-disruption"
QUOTA_PLAN_SAMPLES = ROOT / "config" / "samples-quota-plan"
TOPOLOGY_SAMPLES = ROOT / "config" / "samples-topology"
PUBLISHED = ROOT / "tests" / "integration" / "manifests"
KINDS = {kind.kind: kind for kind in map(kind_from_crd, load_crds())}


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    folders = (
        SAMPLES,
        WORKER_SAMPLES,
        PROVISIONING_SAMPLES,
        TOPOLOGY_SAMPLES,
        DISPATCH_SAMPLES,
        DISRUPTION_SAMPLES,
        QUOTA_PLAN_SAMPLES,
        PUBLISHED,
    )
    for folder in folders:
        paths = sorted(folder.rglob("*.yaml"))
        assert paths, f"no manifest in {folder}"
        for path in paths:
            for i, obj in enumerate(yaml.safe_load_all(path.read_text(encoding="utf-8"))):
                yield f"{path.relative_to(folder)}-{i}", obj


DOCUMENTS = dict(documents())


def check_ours(obj: dict[str, Any]) -> list[str]:
    """Errors of an object of our group, in the way of a server with webhooks."""
    kind = KINDS[obj["kind"]]
    version = obj["apiVersion"].rpartition("/")[2]
    admitted = admit(kind, kind.version(version), obj, field_validation="Strict")
    assert not admitted.strict_errors
    assert admitted.bad_request is None
    rules = RULES[obj["kind"]]
    hub = rules.default(convert(admitted.obj, "v1beta2"), gates=Gates())
    again = admit(kind, kind.version("v1beta2"), hub)
    return [str(e) for e in (*admitted.causes, *again.causes, *rules.validate_create(again.obj))]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_published_objects_are_accepted(name: str) -> None:
    obj = DOCUMENTS[name]
    if obj["apiVersion"].startswith(f"{GROUP}/"):
        assert check_ours(obj) == []
    elif obj["apiVersion"] == V1ALPHA1:
        kind = KINDS[obj["kind"]]
        admitted = admit(kind, kind.version("v1alpha1"), obj, field_validation="Strict")
        assert [*admitted.strict_errors, *admitted.causes] == []
    elif obj["kind"] == "Job":
        job = default_job(obj, Queues(), Configuration()).job
        assert validate_job_create(job, Gates()) == []
        assert job["spec"]["suspend"] is True


def test_samples_refer_to_what_they_contain() -> None:
    manager = [
        obj
        for path in sorted(SAMPLES.glob("*.yaml"))
        for obj in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in manager}
    for obj in manager:
        if obj["kind"] == "LocalQueue":
            assert ("ClusterQueue", obj["spec"]["clusterQueue"]) in names
            assert ("Namespace", obj["metadata"]["namespace"]) in names
        if obj["kind"] == "ClusterQueue":
            for group in obj["spec"]["resourceGroups"]:
                for flavor in group["flavors"]:
                    assert ("ResourceFlavor", flavor["name"]) in names
        if obj["kind"] == "MultiKueueConfig":
            for cluster in obj["spec"]["clusters"]:
                assert ("MultiKueueCluster", cluster) in names


def test_workers_have_the_queues_of_the_manager() -> None:
    def queues(folder: Path) -> set[tuple[str, str]]:
        return {
            (obj["metadata"]["namespace"], obj["metadata"]["name"])
            for path in folder.glob("*.yaml")
            for obj in yaml.safe_load_all(path.read_text(encoding="utf-8"))
            if obj["kind"] == "LocalQueue"
        }

    manager = queues(SAMPLES)
    assert manager
    assert queues(WORKER_SAMPLES / "worker-a100") == manager
    assert queues(WORKER_SAMPLES / "worker-h100") == manager
