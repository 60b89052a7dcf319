"""Wrong values of the configuration, each with the field that is named and the words."""

from __future__ import annotations

import pytest

from multiqueue.api.config import ConfigurationError, build_configuration, load_configuration

NEW = "apiVersion: config.kueue.x-k8s.io/v1beta2\n"
OLD = "apiVersion: config.kueue.x-k8s.io/v1beta1\n"
LABELS = ", ".join(f"{{name: l{i}, sourceLabelKey: k{i}}}" for i in range(21))
SOURCES = "[{counter: {name: c, driver: d}}, {capacity: {name: c, driver: d}}]"
COUNTED = "{name: a, deviceClassNames: [b], sources: [{counter: {name: c, driver: d}}]}"
MAPPING = f"{{name: a, deviceClassNames: [x], sources: {SOURCES}}}"


def errors_of(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text)
    parts = (error.partition(": ") for error in caught.value.errors)
    return [(path, words) for path, _, words in parts]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("webhook: {port: -1}", "webhook.port", "-1 is not a port; use 1 to 65535"),
        ("webhook: {port: '1'}", "webhook.port", "expected `int`, got `str`"),
        ("metrics: {bindAddress: here}", "metrics.bindAddress", '"here" is not an address'),
        ("metrics: {bindAddress: ':99999'}", "metrics.bindAddress", '":99999" is not an address'),
        (
            "health: {healthProbeBindAddress: 'a b:1'}",
            "health.healthProbeBindAddress",
            "write host:port",
        ),
        ("pprofBindAddress: x", "pprofBindAddress", '"x" is not an address'),
        (
            "health: {readinessEndpointName: ''}",
            "health.readinessEndpointName",
            "is not a path",
        ),
        (
            "health: {livenessEndpointName: /readyz}",
            "health.livenessEndpointName",
            "is the readiness endpoint, too",
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            "leaderElection.resourceLock",
            'use "leases"',
        ),
        (
            "leaderElection: {resourceName: A_b}",
            "leaderElection.resourceName",
            "is not the name of a Lease",
        ),
        (
            "controller: {cacheSyncTimeout: 0s}",
            "controller.cacheSyncTimeout",
            "must be greater than 0",
        ),
        (
            "metrics: {localQueueMetrics: {localQueueSelector: {matchLabels: {'a b': c}}}}",
            "metrics.localQueueMetrics.localQueueSelector",
            "not a qualified name",
        ),
        ("waitForPodsReady: {timeout: -1s}", "waitForPodsReady.timeout", "must not be negative"),
        (
            "waitForPodsReady: {recoveryTimeout: -1s}",
            "waitForPodsReady.recoveryTimeout",
            "must not be negative",
        ),
        (
            "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}",
            "waitForPodsReady.requeuingStrategy.backoffLimitCount",
            "must not be negative",
        ),
        (
            "integrations: {labelKeysToCopy: ['a b']}",
            "integrations.labelKeysToCopy[0]",
            '"a b": ',
        ),
        (
            "integrations: {externalFrameworks: [Job.v1.batch]}",
            "integrations.externalFrameworks[0]",
            'is the built-in kind "batch/job"',
        ),
        (
            "integrations: {externalFrameworks: [A.v1.b, A.v1.b]}",
            "integrations.externalFrameworks[1]",
            "listed twice",
        ),
        (
            "multiKueue: {externalFrameworks: [{name: A.v1}]}",
            "multiKueue.externalFrameworks[0]",
            "must be Kind.version.group",
        ),
        (
            "multiKueue: {externalFrameworks: [{name: Pod.v1.b}, {name: Job.v1.batch}]}",
            "multiKueue.externalFrameworks[1]",
            'is the built-in kind "batch/job"',
        ),
        (
            "multiKueue: {workerLostTimeout: -1s}",
            "multiKueue.workerLostTimeout",
            "must not be negative",
        ),
        (
            "admissionFairSharing: {usageHalfLifeTime: -1h}",
            "admissionFairSharing.usageHalfLifeTime",
            "must not be negative",
        ),
        (
            "objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: -1s}}",
            "objectRetentionPolicies.workloads.afterDeactivatedByKueue",
            "must not be negative",
        ),
        ("visibilityServer: {bindPort: 0}", "visibilityServer.bindPort", "is not a port"),
        ("dashboard: {bindAddress: here}", "dashboard.bindAddress", "is not an address"),
        ('dashboard: {url: "http://a"}', "dashboard.url", "does not begin with https://"),
        ('dashboard: {url: "https://a/b/../c"}', "dashboard.url", "letters, digits"),
        ('dashboard: {url: "https://a/%2e/"}', "dashboard.url", 'cannot be below "/%2e"'),
        ('dashboard: {url: "https://a/apis/b"}', "dashboard.url", "neither with /apis"),
        ("dashboard: {auth: {mode: None}}", "dashboard.auth.mode", "use Token or Proxy"),
        ("dashboard: {auth: {mode: Proxy}}", "dashboard.url", "host name of the proxy; write"),
        (
            "featureGates: {PriorityBoost: true, TLSOptions: yes please}",
            "featureGates[TLSOptions]",
            "expected `bool`, got `str`",
        ),
        (
            "featureGates: {TASProfileMixed: true, TopologyAwareScheduling: false}",
            "featureGates.TASProfileMixed",
            "requires TopologyAwareScheduling; enable it too",
        ),
        ("fairSharing: {enable: true}", "fairSharing.enable", "unknown field"),
        ("queueVisibility: {}", "queueVisibility", "unknown field"),
        ("integrations: {podOptions: {}}", "integrations.podOptions", "unknown field"),
        ("waitForPodsReady: {enable: true}", "waitForPodsReady.enable", "unknown field"),
    ],
)
def test_names_the_field_and_the_way_out(text: str, path: str, words: str) -> None:
    found = dict(errors_of(NEW + text))
    assert path in found
    assert words in found[path]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (f"metrics: {{customLabels: [{LABELS}]}}", "metrics.customLabels", "at most 20"),
        (
            "metrics: {customLabels: [{name: a, sourceKind: Workload, trackedValues: ["
            + ", ".join("abcdefghijklm")
            + "]}]}",
            "metrics.customLabels[0].trackedValues",
            "needs 1 to 12",
        ),
        (
            "metrics: {customLabels: [{name: a, trackedValues: [" + "a, " * 17 + "]}]}",
            "metrics.customLabels[0].trackedValues",
            "at most 16",
        ),
        (
            "metrics: {customLabels: ["
            + ", ".join(f"{{name: {n}, sourceKind: Workload, trackedValues: [a]}}" for n in "abc")
            + "]}",
            "metrics.customLabels",
            "3 labels of kind Workload; at most 2",
        ),
        (
            f"resources: {{deviceClassMappings: [{MAPPING}]}}",
            "resources.deviceClassMappings[0].sources",
            "cannot be mixed",
        ),
    ],
)
def test_sections_that_are_refused_are_checked_nevertheless(
    text: str, path: str, words: str
) -> None:
    found = errors_of(NEW + text)
    assert any(got == path and words in said for got, said in found), found


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("metrics: {customLabels: [{name: a, sourceLabelKey: b}]}", "metrics.customLabels"),
        (
            f"resources: {{deviceClassMappings: [{COUNTED}]}}",
            "resources.deviceClassMappings[].sources",
        ),
    ],
)
def test_what_would_be_ignored_to_harm_is_refused(text: str, path: str) -> None:
    ((got, words),) = errors_of(NEW + text)
    assert got == path
    assert words.endswith("; remove it")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("visibilityServer: {bindPort: 1}", "visibilityServer"),
        ("resources: {quotaCheckStrategy: IgnoreUndeclared}", "resources.quotaCheckStrategy"),
        (
            "multiKueue: {incrementalDispatcherConfig: {stepSize: 2}}",
            "multiKueue.incrementalDispatcherConfig",
        ),
        (
            "resources: {deviceClassMappings: [{name: a, deviceClassNames: [b], sources: []}]}",
            "resources.deviceClassMappings[].sources",
        ),
        (
            "metrics: {customLabels: [{name: a, sourceKind: Cohort}]}",
            "metrics.customLabels[].sourceKind",
        ),
    ],
)
def test_v1beta1_has_no_fields_of_v1beta2(text: str, path: str) -> None:
    assert errors_of(OLD + text)[0] == (
        path,
        "is no field of v1beta1; set apiVersion: config.kueue.x-k8s.io/v1beta2",
    )


def test_the_file_that_is_read_stays_as_it_is() -> None:
    raw = {"fairSharing": {"preemptionStrategies": ["x"], "nope": 1}}
    with pytest.raises(ConfigurationError):
        build_configuration(raw)
    assert raw["fairSharing"]["nope"] == 1


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("apiVersion: []", "apiVersion"),
        ("clientConnection: {qps: .nan}", "clientConnection"),
        ("clientConnection: {qps: .inf}", "clientConnection"),
        (f"{OLD}fairSharing: {{enable: x}}", "fairSharing.enable"),
        (f"{OLD}waitForPodsReady: {{enable: []}}", "waitForPodsReady.enable"),
    ],
)
def test_what_no_field_can_hold_is_refused(text: str, path: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text)
    assert [error.partition(": ")[0] for error in caught.value.errors] == [path]
