"""The language of changes: what each one edits, and how a wrong one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.names import CORDON
from multiqueue.whatif.change_request import ChangeError
from multiqueue.whatif.changes import RULES, apply_change
from multiqueue.whatif.snapshot import Snapshot
from tests.unit.whatif.worlds import make_job, make_snapshot

GPU = "nvidia.com/gpu"


def no_files(snapshot: Snapshot, name: str) -> list[str]:
    raise AssertionError(f"{name} is read")


def change(snapshot: Snapshot, text: str) -> str:
    return apply_change(snapshot, text, no_files)


def quotas(snapshot: Snapshot, queue: str = "research") -> dict[str, dict[str, Any]]:
    spec = snapshot.of("ClusterQueue")[queue]["spec"]
    return {
        flavor["name"]: {k: v for k, v in quota.items() if k != "name"}
        for flavor in spec["resourceGroups"][0]["flavors"]
        for quota in flavor["resources"]
        if quota["name"] == GPU
    }


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("quota cq/research nvidia.com/gpu=16", ("12", "4"), id="keeps proportions"),
        pytest.param("quota cq/research nvidia.com/gpu=5", ("4", "1"), id="rounds to the sum"),
        pytest.param("quota cq/research nvidia.com/gpu@h100=2", (3, "2"), id="one flavor"),
        pytest.param("quota cq/research nvidia.com/gpu=0", ("0", "0"), id="takes all"),
    ],
)
def test_quota(text: str, want: tuple[object, object]) -> None:
    snapshot = make_snapshot()
    assert change(snapshot, text).startswith(
        "ClusterQueue research: nvidia.com/gpu from 3 to "
    ) or ("@" in text)
    got = quotas(snapshot)
    assert (got["a100"]["nominalQuota"], got["h100"]["nominalQuota"]) == want


def test_a_queue_without_quota_gets_it_in_even_parts() -> None:
    snapshot = make_snapshot()
    change(snapshot, "quota cq/research nvidia.com/gpu=0")
    change(snapshot, "quota cq/research nvidia.com/gpu=6")
    assert {name: each["nominalQuota"] for name, each in quotas(snapshot).items()} == {
        "a100": "3",
        "h100": "3",
    }


def test_limits_are_set_and_removed() -> None:
    snapshot = make_snapshot()
    change(snapshot, "borrowing-limit cq/research nvidia.com/gpu@a100=2")
    change(snapshot, "lending-limit cq/research nvidia.com/gpu@a100=1")
    assert quotas(snapshot)["a100"] == {
        "nominalQuota": 3,
        "borrowingLimit": "2",
        "lendingLimit": "1",
    }
    change(snapshot, "borrowing-limit cq/research nvidia.com/gpu=-")
    change(snapshot, "lending-limit cq/research nvidia.com/gpu@a100=-")
    assert quotas(snapshot)["a100"] == {"nominalQuota": 3}


@pytest.mark.parametrize(
    ("text", "field", "want"),
    [
        ("weight cq/research=2", "fairSharing", {"weight": "2"}),
        ("strategy cq/research=StrictFIFO", "queueingStrategy", "StrictFIFO"),
        ("cohort cq/research=-", "cohortName", ""),
        ("hold cq/research", "stopPolicy", "Hold"),
        ("resume cq/research", "stopPolicy", "None"),
    ],
)
def test_fields_of_a_queue(text: str, field: str, want: object) -> None:
    snapshot = make_snapshot()
    change(snapshot, text)
    assert snapshot.of("ClusterQueue")["research"]["spec"][field] == want


def test_a_local_queue_is_held() -> None:
    snapshot = make_snapshot()
    change(snapshot, "hold lq/research/research")
    assert snapshot.of("LocalQueue")["research/research"]["spec"]["stopPolicy"] == "Hold"


def test_a_job_is_named_by_its_own_name() -> None:
    snapshot = make_snapshot(make_job("research", "train", 1))
    change(snapshot, "priority research/train=1000")
    (workload,) = snapshot.workloads().values()
    assert workload.spec.priority == 1000
    change(snapshot, "cancel research/train")
    assert snapshot.workloads() == {}


def test_a_cordon_leaves_jobs_and_a_drain_queues_them_again() -> None:
    runs = make_job("research", "runs", 1, accelerator="a100")
    snapshot = make_snapshot(holding=[runs])
    change(snapshot, "cordon worker-a100")
    (workload,) = snapshot.workloads().values()
    worker = snapshot.of("MultiKueueCluster")["worker-a100"]
    assert worker["metadata"]["annotations"] == {CORDON: "true"}
    assert workload.status.admission is not None
    assert "its 1 job queues again" in change(snapshot, "drain worker-a100")
    (workload,) = snapshot.workloads().values()
    assert workload.status.admission is None


def test_a_removed_worker_is_gone_with_its_queues() -> None:
    snapshot = make_snapshot()
    change(snapshot, "remove worker-a100")
    assert "worker-a100" not in snapshot.of("MultiKueueCluster")
    assert snapshot.of("ClusterQueue", "worker-a100") == {}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", 'there is no change ""'),
        ("quta cq/research x=1", 'no change "quta"; write one of: quota cq/NAME'),
        ('quota "cq/research', "No closing quotation"),
        ("quota cq/research", 'write "quota cq/NAME|cohort/NAME RESOURCE'),
        ("quota cq/nobody nvidia.com/gpu=1", 'ClusterQueue "nobody" is not in the snapshot; there'),
        ("quota lq/research nvidia.com/gpu=1", "neither cq/NAME nor cohort/NAME"),
        ("quota cq/research amd.com/gpu=1", "has no quota of amd.com/gpu; it has cpu@a100"),
        ("quota cq/research nvidia.com/gpu@b200=1", "has no quota of nvidia.com/gpu@b200"),
        ("quota cq/research nvidia.com/gpu=lots", "nvidia.com/gpu: "),
        ("quota cq/research nvidia.com/gpu=-1", "is negative"),
        ("quota cq/research nvidia.com/gpu", "is no RESOURCE[@FLAVOR]=N"),
        ("borrowing-limit cq/research nvidia.com/gpu=1", "name one as nvidia.com/gpu@FLAVOR=1"),
        ("weight cq/research=heavy", '"heavy" is no number'),
        ("strategy cq/research=LIFO", "use StrictFIFO or BestEffortFIFO"),
        ("hold research", 'write "hold cq/NAME'),
        ("priority research/train=1", 'job "research/train" is not in the snapshot'),
        ("priority train=1", "is no NAMESPACE/JOB"),
        ("drain moon", 'MultiKueueCluster "moon" is not in the snapshot; there are: worker-a100'),
        ("submit", 'write "submit FILE"'),
        ("add worker-new", 'write "add WORKER FLAVOR=N'),
        ("add worker-new a100=many", '"a100=many" is no FLAVOR=N'),
        ("add worker-new a100=²", '"a100=²" is no FLAVOR=N'),
        ("add worker-new a100=" + "9" * 5000, "is no FLAVOR=N"),
        ("add worker-new b200=8", "no worker of the snapshot has flavor b200"),
        ("add worker-a100 a100=8", 'there is a MultiKueueCluster "worker-a100"'),
    ],
)
def test_a_wrong_change_says_what_to_write(text: str, want: str) -> None:
    with pytest.raises(ChangeError) as caught:
        change(make_snapshot(), text)
    assert want in str(caught.value)


def test_every_verb_has_a_form_that_begins_with_it() -> None:
    assert all(rule.form.split()[0] == verb for verb, rule in RULES.items())
