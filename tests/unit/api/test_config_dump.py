"""The effective configuration, warnings, and the table of fields."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from multiqueue.api.config import (
    Configuration,
    build_configuration,
    load_configuration,
    parse_duration,
)
from multiqueue.api.config.dump import dump_configuration
from multiqueue.api.config.support import INERT, REFUSED
from multiqueue.api.config.warnings import find_warnings
from multiqueue.api.durations import format_duration
from tools.reference.configuration import field_rows

ROOT = Path(__file__).parents[3]
UPSTREAM = """
apiVersion: config.kueue.x-k8s.io/{version}
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
  enableClusterQueueResources: true
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
controller:
  groupKindConcurrency:
    Job.batch: 5
    Pod: 5
    Workload.kueue.x-k8s.io: 10
    LocalQueue.kueue.x-k8s.io: 5
    ClusterQueue.kueue.x-k8s.io: 5
    ResourceFlavor.kueue.x-k8s.io: 1
clientConnection:
  qps: 50
  burst: 100
integrations:
  frameworks:
  - batch/job
  - kubeflow.org/mpijob
  - ray.io/rayjob
  - ray.io/raycluster
  - ray.io/rayservice
  - jobset.x-k8s.io/jobset
  - trainer.kubeflow.org/trainjob
  - kubeflow.org/paddlejob
  - kubeflow.org/pytorchjob
  - kubeflow.org/tfjob
  - kubeflow.org/xgboostjob
  - kubeflow.org/jaxjob
  - workload.codeflare.dev/appwrapper
  - pod
  - deployment
  - statefulset
  - leaderworkerset.x-k8s.io/leaderworkerset
managedJobsNamespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: [kube-system, kueue-system]
"""


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_file_of_an_upstream_installation_is_taken(version: str) -> None:
    text = UPSTREAM.format(version=version)
    config = load_configuration(text)
    warnings = find_warnings(yaml.safe_load(text), config)
    paths = [text.partition(": ")[0] for text in warnings]
    old = ["apiVersion"] if version == "v1beta1" else []
    assert paths == old
    assert config.controller.workers_for("Job", "batch", 16) == 5
    assert config.controller.workers_for("Pod", "", 1) == 5
    assert config.controller.workers_for("Cohort", "kueue.x-k8s.io", 1) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pprofBindAddress: :8083", "pprofBindAddress: does nothing"),
        (
            "featureGates: {TASReplaceNodeDueToNotReadyOverFixedTime: true}",
            "is deprecated; remove",
        ),
        ("featureGates: {TLSOptions: true}", "is locked, the setting does nothing"),
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta1\nqueueVisibility: {}",
            "queueVisibility: does nothing",
        ),
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta1\nintegrations: {podOptions: {}}",
            "integrations.podOptions: does nothing",
        ),
    ],
)
def test_what_does_nothing_is_told(text: str, says: str) -> None:
    assert any(says in w for w in find_warnings(yaml.safe_load(text), load_configuration(text)))


def test_a_usual_file_has_no_warnings() -> None:
    text = (ROOT / "config" / "manager" / "controller_manager_config.yaml").read_text()
    assert find_warnings(yaml.safe_load(text), load_configuration(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "waitForPodsReady: {timeout: 5m, recoveryTimeout: 90s}",
        "featureGates: {DisableWaitForPodsReady: true, PartialAdmission: false}",
        "fairSharing: {preemptionStrategies: [LessThanInitialShare]}",
        "admissionFairSharing: {usageHalfLifeTime: 1h, resourceWeights: {cpu: 0.5}}",
        "resources: {transformations: [{input: a, outputs: {b: 2, c: 1Gi}, multiplyBy: d}]}",
        "metrics: {localQueueMetrics: {localQueueSelector: {matchLabels: {a: b}}}}",
        "objectRetentionPolicies: {workloads: {afterFinished: 1h}}",
        "multiKueue: {dispatcherArguments: {weights: {a: [1, 2]}}}",
        UPSTREAM.format(version="v1beta2"),
    ],
)
def test_the_effective_configuration_reads_back_to_the_same(text: str) -> None:
    config = load_configuration(text)
    dumped = dump_configuration(config)
    again = build_configuration(yaml.safe_load(yaml.safe_dump(dumped)))
    assert dump_configuration(again) == dumped
    assert again.gates == config.gates
    assert again.jobs_namespace_selector == config.jobs_namespace_selector
    explicit = {"managed_jobs_namespace_selector": None, "wait_for_pods_ready": None}
    assert msgspec.structs.replace(again, **explicit) == msgspec.structs.replace(config, **explicit)


def test_an_old_file_without_waiting_stays_without() -> None:
    config = load_configuration("apiVersion: config.kueue.x-k8s.io/v1beta1")
    dumped = dump_configuration(config)
    assert dumped["apiVersion"] == "config.kueue.x-k8s.io/v1beta2"
    assert "waitForPodsReady" not in dumped
    assert build_configuration(dumped).wait_for_pods_ready is None


def test_defaults_are_said_in_full() -> None:
    dumped = dump_configuration(Configuration())
    assert dumped["waitForPodsReady"]["recoveryTimeout"] == "30m0s"
    assert dumped["controller"]["cacheSyncTimeout"] == "2m0s"
    assert dumped["multiKueue"]["workerLostTimeout"] == "15m0s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (120, "2m0s"),
        (5400, "1h30m0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (-2, "-2s"),
        (3e-6, "3µs"),
        (0.0015, "1.5ms"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.integers(-(10**15), 10**15).map(lambda n: timedelta(microseconds=n)))
def test_durations_read_back(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


def test_the_page_lists_every_field() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{row.path}`" for row in field_rows()]


def test_what_is_not_honoured_is_a_field() -> None:
    assert {*REFUSED, *INERT} <= {row.path for row in field_rows()}
