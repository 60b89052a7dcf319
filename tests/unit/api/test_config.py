from __future__ import annotations

from datetime import timedelta

import pytest

from multiqueue.api.config import (
    Configuration,
    ConfigurationError,
    Gate,
    Gates,
    load_configuration,
    parse_duration,
)
from multiqueue.api.config.gates import GATES, find_gate_errors

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
OLD = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


def errors_of(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text)
    return "\n".join(caught.value.errors)


def test_an_empty_file_gives_the_defaults() -> None:
    assert load_configuration("") == Configuration()
    assert load_configuration(HEAD) == Configuration()


def test_defaults_are_those_of_upstream() -> None:
    config = Configuration()
    assert config.namespace == "kueue-system"
    assert config.webhook.port == 9443
    assert config.leader_election.resource_name == "c1f6bfd2.kueue.x-k8s.io"
    assert config.client_connection.qps == 300
    assert config.multi_kueue.gc_interval == timedelta(minutes=1)
    assert config.multi_kueue.worker_lost_timeout == timedelta(minutes=15)
    assert config.multi_kueue.origin == "multikueue"
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.timeout == timedelta(minutes=30)
    assert config.wait_for_pods_ready.effective_recovery_timeout == timedelta(minutes=30)
    assert config.fair_sharing is None
    assert config.integrations.frameworks == ("batch/job",)


def test_reads_values_of_every_kind() -> None:
    config = load_configuration(
        HEAD
        + """
multiKueue:
  gcInterval: 1m30s
  dispatcherName: anything.example.com/mine
  dispatcherArguments: {weights: [1, 2]}
admissionFairSharing: {usageHalfLifeTime: 1h, usageSamplingInterval: 1s, resourceWeights: {cpu: 2}}
fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}
waitForPodsReady: {timeout: 5m, recoveryTimeout: 1m}
resources: {transformations: [{input: a, strategy: Replace, outputs: {b: 2, c: 1Gi}}]}
managedJobsNamespaceSelector:
  matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a]}]
"""
    )
    assert config.multi_kueue.gc_interval == timedelta(seconds=90)
    assert config.multi_kueue.dispatcher_arguments == {"weights": [1, 2]}
    assert config.admission_fair_sharing is not None
    assert config.admission_fair_sharing.usage_half_life_time == timedelta(hours=1)
    assert config.fair_sharing is not None
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.effective_recovery_timeout == timedelta(minutes=1)
    assert config.resources.transformations[0].outputs == {"b": 2, "c": "1Gi"}
    assert config.jobs_namespace_selector["matchExpressions"][0]["values"] == ["a"]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(
            "multiKueue: {gcIntervall: 1m, gcInterval: 5, origin: 7}\n"
            "leaderElection: {leaseDuratoin: 30s, renewDeadline: 20s}\n"
            "webhook: {port: 70000}\n"
        )
    assert [error.partition(":")[0] for error in caught.value.errors] == [
        "multiKueue.gcIntervall",
        "leaderElection.leaseDuratoin",
        "multiKueue.gcInterval",
        "multiKueue.origin",
        "webhook.port",
    ]


def test_nulls_are_absent() -> None:
    assert load_configuration("multiKueue: null\nwebhook: {port: null}") == Configuration()


PRICE = "{flavor: a100, from: 2026-01-01, perGpuHour: 2, currency: EUR}"
OTHER = "flavor: h100, from: 2026-01-01, perGpuHour: 4"
RECEIVER = "{name: chat, urlFile: /etc/notify/chat, format: Slack, namespaces: [team]}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "not YAML"),
        ("3", "must hold a mapping"),
        ("apiVersion: v1", '"v1" is not supported'),
        ("kind: Pod", '"Pod" is not supported'),
        ("multiKueue: {gcIntervall: 1m}", 'did you mean "gcInterval"'),
        ("metrics: {customLabels: [{name: a, foo: 1}]}", "metrics.customLabels[0].foo"),
        ("multiKueue: {gcInterval: 5}", "multiKueue.gcInterval: 5 is not a duration"),
        ("multiKueue: {gcInterval: 5 minutes}", '"5 minutes" is not a duration'),
        ("multiKueue: {gcInterval: -5m}", "must not be negative"),
        ("multiKueue: {allowedProxies: [proxy:3128]}", "allowedProxies[0]: a proxy that does not"),
        ("multiKueue: {allowedProxies: ['http://u:p@a']}", "a proxy that holds a user name"),
        ("multiKueue: {allowedProxies: ['http://a/b']}", "has a path; a proxy has none"),
        (f"notifications: {{receivers: [{RECEIVER}, {RECEIVER}]}}", '[1]: "chat" is listed twice'),
        ("notifications: {receivers: [{name: A, urlFile: /a}]}", '[0].name: "A" is not a name'),
        ("notifications: {receivers: [{name: a, urlFile: a}]}", "is not the path of a file; mount"),
        (
            "notifications: {receivers: [{name: a, urlFile: /a, keyFile: k}]}",
            '[0].keyFile: "k" is not the path of a file; mount',
        ),
        (
            "notifications: {receivers: [{name: a, urlFile: /a, format: Mail}]}",
            'receivers[0].format: "Mail" is unknown; use JSON or Slack',
        ),
        ("traces: {endpoint: 'http://collector:4318/v1/traces'}", "would get names of jobs unencr"),
        ("traces: {endpoint: 'https://a:b@c'}", "traces.endpoint: an address that holds a user"),
        ("traces: {endpoint: 'grpc://c'}", "traces.endpoint: an address that does not begin with"),
        ("traces: {sample: 1.5}", "traces.sample: 1.5 is no share; use 0 to 1"),
        ("traces: {sample: .nan}", "traces.sample: nan is no share; use 0 to 1"),
        ("traces: {headersFile: a}", 'traces.headersFile: "a" is not the path of a file; mount a'),
        (f"usage: {{prices: [{PRICE}, {PRICE}]}}", '[1]: "a100 from 2026-01-01" is listed twice'),
        (f"usage: {{prices: [{PRICE}, {{{OTHER}, currency: USD}}]}}", '[1].currency: "USD" is not'),
        (f"usage: {{prices: [{{{OTHER}, from: 2026-02-30}}]}}", '.from: "2026-02-30" is no day'),
        (f"usage: {{prices: [{{{OTHER}, from: 2026-2-3}}]}}", '.from: "2026-2-3" is no day; write'),
        ("usage: {prices: [{flavor: '', from: 2026-01-01, perGpuHour: 1}]}", "[0].flavor: it is"),
        (f"usage: {{prices: [{{{OTHER}, perGpuHour: -1}}]}}", "perGpuHour: -1 is no price; use 0"),
        (f"usage: {{prices: [{{{OTHER}, perGpuHour: .nan}}]}}", "perGpuHour: nan is no price"),
        (f"usage: {{prices: [{{{OTHER}, perGpuHour: .inf}}]}}", "perGpuHour: inf is no price"),
        ("x: " + "[" * 100_000, "not YAML: it is nested more than 200 levels deep"),
        ("multiKueue: {drainPeriod: 0s}", "drainPeriod: must be more than 0s"),
        ("multiKueue: {preemptionTimeout: 0s}", "preemptionTimeout: must be more than 0s"),
        ("multiKueue: {dispatcherIsolation: {mode: Fork}}", '"Fork": use Process or Thread'),
        ("multiKueue: {dispatcherIsolation: {memory: 1Q}}", "dispatcherIsolation.memory: "),
        ("multiKueue: {dispatcherIsolation: {memory: 1Mi}}", "1Mi must be at least 256Mi"),
        ("multiKueue: {drainAtOnce: 0}", "drainAtOnce: 0 must be at least 1"),
        ("multiKueue: {origin: a b}", "not a label value"),
        ("multiKueue: {externalFrameworks: [{name: job}]}", "Kind.version.group"),
        ("multiKueue: {externalFrameworks: [{name: Job.v1.batch}]}", "built-in"),
        ("multiKueue: {incrementalDispatcherConfig: {stepSize: 0}}", "at least 1"),
        ("multiKueue: {incrementalDispatcherConfig: {stepSize: 1}}", "only with dispatcherName"),
        ("clientConnection: {qps: a}", "clientConnection.qps"),
        ("clientConnection: {qps: -1}", "must be greater than 0"),
        ("webhook: {port: 70000}", "is not a port"),
        ("visibilityServer: {bindAddress: here}", "not an IP address"),
        ("leaderElection: {renewDeadline: 20s}", "leaseDuration > renewDeadline"),
        ("internalCertManagement: {webhookServiceName: A_b}", "not a DNS name"),
        ("tls: {minVersion: VersionTLS10}", "use VersionTLS12"),
        ("tls: {minVersion: VersionTLS13, cipherSuites: [A]}", "cannot be chosen"),
        ("managedJobsNamespaceSelector: {}", 'must not match namespace "kube-system"'),
        ("managedJobsNamespaceSelector: {matchLabels: {'a b': c}}", "managedJobsNamespaceSelector"),
        ("waitForPodsReady: {requeuingStrategy: {timestamp: Now}}", "use Eviction or Creation"),
        ("waitForPodsReady: {requeuingStrategy: {backoffBaseSeconds: -1}}", "negative"),
        ("integrations: {frameworks: [batch/job, batch/job]}", "listed twice"),
        ("integrations: {frameworks: [nope]}", "is unknown"),
        ("integrations: {externalFrameworks: [x]}", "Kind.version.group"),
        ("fairSharing: {}", "preemptionStrategies"),
        ("fairSharing: {preemptionStrategies: [LessThanInitialShare, x]}", "must be ["),
        ("admissionFairSharing: {usageSamplingInterval: 0}", "admissionFairSharing"),
        ("admissionFairSharing: {usageSamplingInterval: 0s}", "greater than 0"),
        ("admissionFairSharing: {by: Namespace}", "must be LocalQueue or Owner"),
        ("admissionFairSharing: {resourceWeights: {cpu: -1}}", "must not be negative"),
        ("resources: {quotaCheckStrategy: X}", "BlockUndeclared"),
        (
            "resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}",
            "no meaning",
        ),
        ("resources: {transformations: [{input: a}, {input: a}]}", "listed twice"),
        ("resources: {transformations: [{input: a, strategy: X}]}", "Retain or Replace"),
        ("resources: {transformations: [{input: a, outputs: {b: x}}]}", "is not a quantity"),
        ("resources: {deviceClassMappings: [{name: a, deviceClassNames: []}]}", "use 1 to 8"),
        (
            (
                "resources: {deviceClassMappings: [{name: a, deviceClassNames: [x]},"
                " {name: b, deviceClassNames: [x]}]}"
            ),
            "already",
        ),
        (
            "resources: {deviceClassMappings: [{name: a, deviceClassNames: [x], sources: [{}]}]}",
            "exactly one",
        ),
        ("metrics: {customLabels: [{name: 1a}]}", "must be a letter"),
        (
            "metrics: {customLabels: [{name: a, sourceLabelKey: a, sourceAnnotationKey: b}]}",
            "exclude each other",
        ),
        ("metrics: {customLabels: [{name: a, sourceKind: X}]}", "sourceKind"),
        ("metrics: {customLabels: [{name: a, sourceKind: Workload}]}", "needs 1 to 12"),
        ("controller: {groupKindConcurrency: {Job.batch: 0}}", "at least 1"),
        ("objectRetentionPolicies: {workloads: {afterFinished: -1s}}", "must not be negative"),
        ("namespace: A", "not a namespace name"),
        ("featureGates: {PartialAdmision: true}", 'did you mean "PartialAdmission"'),
        ("featureGates: {Zzz: true}", "unknown feature gate"),
        ("featureGates: {CustomMetricLabels: true}", "implemented yet"),
        ("featureGates: {TLSOptions: false}", "is locked to true"),
    ],
)
def test_says_path_value_and_the_way_out(text: str, says: str) -> None:
    assert says in errors_of(text)


@pytest.mark.parametrize("gate", [gate for gate, spec in GATES.items() if spec.alike])
def test_a_gate_without_a_difference_may_have_either_setting(gate: Gate) -> None:
    for setting in (True, False):
        assert list(find_gate_errors({gate: setting})) == []


def test_lists_every_problem_at_once() -> None:
    got = errors_of("webhook: {port: 70000}\nnamespace: A")
    assert "webhook.port" in got
    assert "namespace" in got


def test_an_ephemeral_webhook_port_is_allowed() -> None:
    assert load_configuration("webhook: {port: 0}").webhook.port == 0


def test_a_gate_turns_pods_ready_off() -> None:
    config = load_configuration("featureGates: {DisableWaitForPodsReady: true}")
    assert config.wait_for_pods_ready is None
    assert config.gates.enabled(Gate.DISABLE_WAIT_FOR_PODS_READY)


def test_v1beta1_turns_features_on_by_flags() -> None:
    config = load_configuration(OLD + "fairSharing: {enable: true}\nqueueVisibility: {}")
    assert config.fair_sharing is not None
    assert config.fair_sharing.preemption_strategies == (
        "LessThanOrEqualToFinalShare",
        "LessThanInitialShare",
    )
    assert config.wait_for_pods_ready is None
    assert load_configuration(OLD + "fairSharing: {enable: false}").fair_sharing is None


def test_v1beta1_pods_ready_has_other_defaults() -> None:
    config = load_configuration(OLD + "waitForPodsReady: {enable: true}")
    assert config.wait_for_pods_ready is not None
    assert config.wait_for_pods_ready.timeout == timedelta(minutes=5)
    assert config.wait_for_pods_ready.block_admission
    assert load_configuration(OLD + "waitForPodsReady: {timeout: 1m}").wait_for_pods_ready is None


def test_v1beta1_pod_options_are_ignored() -> None:
    config = load_configuration(OLD + "integrations: {frameworks: [batch/job], podOptions: {}}")
    assert config.integrations.frameworks == ("batch/job",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("1s", 1),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5m", 30),
        ("250ms", 0.25),
        ("-2s", -2),
        ("3us", 3e-6),
        ("1h1m1s", 3661),
    ],
)
def test_reads_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "1", "s", "1d", "1 s", "1s2", "--1s", "999999999h"])
def test_refuses_other_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_a_gate_needs_what_it_requires() -> None:
    gates = Gates.of(TopologyAwareScheduling=False)
    assert not gates.enabled(Gate.TAS_PROFILE_MIXED)
    assert Gates().enabled(Gate.TAS_PROFILE_MIXED)


def test_all_gates_have_a_specification() -> None:
    assert set(GATES) == set(Gate)
    assert len(GATES) == 80


@pytest.mark.parametrize(
    "name", ["incremental", "kueue.x-k8s.io/multikueue-dispatcher-incremental"]
)
def test_the_incremental_dispatcher_has_a_section_of_its_own(name: str) -> None:
    settings = "incrementalDispatcherConfig: {stepSize: 5}"
    config = load_configuration(f"multiKueue: {{dispatcherName: {name}, {settings}}}")
    assert config.multi_kueue.incremental_dispatcher_config is not None
    assert config.multi_kueue.incremental_dispatcher_config.step_size == 5
