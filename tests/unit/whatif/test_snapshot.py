"""The file of a snapshot: what goes in, what it is read back as, and which files are refused."""

from __future__ import annotations

import gzip
from typing import Any

import orjson
import pytest

from multiqueue.api.config import Configuration, build_configuration
from multiqueue.whatif.anonymous import anonymize
from multiqueue.whatif.contents import KINDS, keep_configuration, keep_listed
from multiqueue.whatif.outcome import ReplayOutcome
from multiqueue.whatif.replay import replay
from multiqueue.whatif.snapshot import MAX_BYTES, Snapshot, SnapshotError, pack, unpack
from tests.unit.whatif.worlds import make_job, make_snapshot

SECRET = "s3cr3t-token"


def busy() -> Snapshot:
    runs = [make_job("research", "big", 8, accelerator="a100")]
    waits = [
        make_job("training", "first", 4),
        make_job("inference", "urgent", 1, accelerator="a100"),
    ]
    return make_snapshot(*waits, holding=runs)


def test_a_file_is_read_back_as_it_was_and_packed_alike() -> None:
    snapshot = busy()
    data = pack(snapshot)
    assert unpack(data, "f") == snapshot
    assert pack(unpack(data, "f")) == data


def lines_of(snapshot: Snapshot) -> list[Any]:
    return [orjson.loads(line) for line in gzip.decompress(pack(snapshot)).splitlines()]


def repacked(lines: list[Any]) -> bytes:
    return gzip.compress(b"\n".join(map(orjson.dumps, lines)))


def test_another_schema_is_refused_with_the_version_that_reads_it() -> None:
    lines = lines_of(busy())
    lines[0] |= {"schema": 2, "program": "multiqueue 9.9"}
    with pytest.raises(SnapshotError, match=r"schema 2, this program reads 1.*multiqueue 9\.9"):
        unpack(repacked(lines), "f")


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(lambda data: b"", "no snapshot", id="empty"),
        pytest.param(lambda data: b"kind: Job", "no snapshot", id="a manifest"),
        pytest.param(lambda data: data[: len(data) // 2], "is cut", id="cut"),
        pytest.param(lambda data: gzip.compress(b"{}"), 'no kind "Snapshot"', id="other JSON"),
        pytest.param(lambda data: gzip.compress(b"x"), "is no JSON", id="no JSON"),
        pytest.param(
            lambda data: gzip.compress(bytes(MAX_BYTES + 1), compresslevel=1),
            "is too large",
            id="a bomb",
        ),
        pytest.param(
            lambda data: gzip.compress(gzip.decompress(data).rpartition(b"\n{")[0]),
            "is cut: it has",
            id="lines are missing",
        ),
    ],
)
def test_a_file_that_is_no_whole_snapshot_is_refused(spoil: Any, want: str) -> None:
    with pytest.raises(SnapshotError, match=want):
        unpack(spoil(pack(busy())), "f")


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (
            {"object": {"kind": "Secret", "metadata": {"name": "x"}}},
            'kind "Secret" does not belong',
        ),
        ({"object": {"kind": "Workload", "metadata": {}}}, "no object with a name"),
        ({"object": None}, "no object with a name"),
        ({"cluster": 1}, "no object with a name, or no cluster"),
        (
            {"object": {"kind": "Workload", "metadata": {"name": "x"}, "spec": {"podSets": 1}}},
            "Workload cannot be read",
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_named_by_its_line(change: Any, want: str) -> None:
    lines = lines_of(busy())
    lines[3] |= change
    with pytest.raises(SnapshotError, match=want) as caught:
        unpack(repacked(lines), "f")
    assert '"f", line 4' in str(caught.value)


def plant(value: Any) -> Any:
    """Return an object with the secret beside every field; requests are a list of their own."""
    if isinstance(value, dict):
        planted = {key: plant(child) for key, child in value.items() if key != "requests"}
        return {**value, **planted, "planted": SECRET}
    return [plant(child) for child in value] if isinstance(value, list) else value


def test_only_what_is_listed_of_a_pod_goes_in() -> None:
    container = {
        "name": "c",
        "image": SECRET,
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": "TOKEN", "value": SECRET}],
        "volumeMounts": [{"name": SECRET}],
        "resources": {"requests": {"cpu": "1"}},
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
        "serviceAccountName": SECRET,
        "imagePullSecrets": [{"name": SECRET}],
    }
    condition = {"type": "QuotaReserved", "status": "False", "reason": "r", "message": SECRET}
    check = {"name": "c", "state": "Pending", "message": SECRET}
    metadata = {"name": "w", "labels": {"team": SECRET}, "annotations": {"note": SECRET}}
    template = {"metadata": {"annotations": {"note": SECRET}}, "spec": pod}
    workload = {
        "kind": "Workload",
        "metadata": {**metadata, "managedFields": [SECRET]},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": template}]},
        "status": {"conditions": [condition], "admissionChecks": [check]},
    }
    kept = keep_listed(workload)
    assert SECRET not in orjson.dumps(kept).decode()
    assert SECRET not in orjson.dumps(keep_listed(plant(workload))).decode()
    (pod_set,) = kept["spec"]["podSets"]
    want = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    assert pod_set["template"]["spec"]["containers"] == [want]


def test_where_a_worker_is_stays_out() -> None:
    cluster = {
        "kind": "MultiKueueCluster",
        "metadata": {"name": "w"},
        "spec": {"clusterSource": {"kubeConfig": {"location": SECRET, "locationType": "Path"}}},
    }
    assert SECRET not in orjson.dumps(keep_listed(cluster)).decode()


def test_secrets_are_no_part_of_a_snapshot() -> None:
    assert {"Secret", "ConfigMap", "Pod", "Event"}.isdisjoint(kind.name for kind in KINDS)


def test_the_configuration_is_kept_as_far_as_it_decides_and_without_addresses() -> None:
    config = build_configuration(
        {
            "webhook": {"host": "10.1.2.3"},
            "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
            "featureGates": {"PartialAdmission": False},
        }
    )
    kept = keep_configuration(config)
    assert "10.1.2.3" not in orjson.dumps(kept).decode()
    read = make_snapshot(config=config).read_configuration()
    assert read.fair_sharing == config.fair_sharing
    assert read.gates == config.gates


def test_a_configuration_of_another_version_is_refused() -> None:
    snapshot = make_snapshot(config=Configuration())
    snapshot.configuration["featureGates"] = {"OfTomorrow": True}
    with pytest.raises(SnapshotError, match="OfTomorrow"):
        replay(snapshot)


# ---------------------------------------------------------------- anonymous

NAMES = ("research", "training", "inference", "worker-a100", "gpu-pool", "gpu-workers", "first")


def summary(outcome: ReplayOutcome) -> list[tuple[object, ...]]:
    rows = outcome.workloads.values()
    return [(r.fate, r.order, r.position, r.priority, r.gpus, r.borrows, r.reason) for r in rows]


def test_an_anonymous_file_has_no_names_and_replays_alike() -> None:
    hidden = anonymize(busy())
    text = gzip.decompress(pack(hidden)).decode()
    assert [name for name in NAMES if f'"{name}"' in text] == []
    assert "job-first" not in text
    assert summary(replay(hidden)) == summary(replay(busy()))


def test_an_anonymous_file_keeps_hardware_and_equal_names_equal() -> None:
    hidden = anonymize(busy())
    assert "nvidia.com/gpu" in gzip.decompress(pack(hidden)).decode()
    queues = {obj["spec"]["clusterQueue"] for obj in hidden.of("LocalQueue").values()}
    assert queues == set(hidden.of("ClusterQueue"))
    assert set(hidden.clusters) - {""} == set(hidden.of("MultiKueueCluster"))
