"""Rules of the configuration file. Each error names the path, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import chain

from multiqueue.api import names
from multiqueue.api.config.checks import not_negative, unique
from multiqueue.api.config.gates import find_gate_errors
from multiqueue.api.config.support import find_refused
from multiqueue.api.config.tls import CIPHER_SUITES, CURVES, TLS13_CIPHER_SUITES
from multiqueue.api.config.types import (
    BY_LOCAL_QUEUE,
    BY_OWNER,
    DENY,
    FINAL_SHARE,
    INITIAL_SHARE,
    WARN,
    ClusterProfile,
    Configuration,
)
from multiqueue.api.config.validate_dispatching import dispatcher_isolation
from multiqueue.api.config.validate_endpoints import (
    allowed_proxies,
    controllers,
    dashboard,
    leader_election,
    notifications,
    ports,
    probes,
    queue_metrics,
    traces,
)
from multiqueue.api.config.validate_resources import metric_labels, resources
from multiqueue.api.config.validate_usage import prices
from multiqueue.api.job_kinds import KNOWN_FRAMEWORKS, SUPPORTED_FRAMEWORKS, find_enabled
from multiqueue.api.validation.names import check_qualified_name
from multiqueue.lib.selectors import SelectorError, label_selector_from

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_GVK = re.compile(r"[A-Z][A-Za-z0-9]*\.v[a-z0-9]+\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_TLS_VERSIONS = ("", "VersionTLS12", "VersionTLS13")


def find_errors(config: Configuration) -> Iterator[str]:
    """Yield every problem of a configuration, in the order of its sections."""
    return chain.from_iterable(rule(config) for rule in _RULES)


def _namespace(config: Configuration) -> Iterator[str]:
    if not _DNS_LABEL.fullmatch(config.namespace):
        yield (
            f'namespace: "{config.namespace}" is not a namespace name; use lower case letters, '
            'digits, "-"'
        )


def _certificates(config: Configuration) -> Iterator[str]:
    section = config.internal_cert_management
    if not section.enable:
        return
    for path, value in (
        ("webhookServiceName", section.webhook_service_name),
        ("webhookSecretName", section.webhook_secret_name),
    ):
        if not _DNS_SUBDOMAIN.fullmatch(value):
            yield (
                f'internalCertManagement.{path}: "{value}" is not a DNS name; use e.g. '
                '"kueue-webhook"'
            )


def _tls(config: Configuration) -> Iterator[str]:
    tls = config.tls
    if tls.min_version not in _TLS_VERSIONS:
        yield (
            f'tls.minVersion: "{tls.min_version}" is not supported; use VersionTLS12 or '
            "VersionTLS13"
        )
    if tls.min_version == "VersionTLS13" and tls.cipher_suites:
        yield (
            "tls.cipherSuites: cannot be chosen with VersionTLS13; remove them or use VersionTLS12"
        )
    for index, name in enumerate(tls.cipher_suites):
        if name not in CIPHER_SUITES and name not in TLS13_CIPHER_SUITES:
            yield (
                f'tls.cipherSuites[{index}]: "{name}" is not supported; use e.g. '
                '"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"'
            )
    for index, name in enumerate(tls.curve_preferences):
        if name not in CURVES:
            yield (
                f'tls.curvePreferences[{index}]: "{name}" is not supported; use one of '
                f"{', '.join(CURVES)}"
            )
    if len(tls.curve_preferences) > 1:
        yield (
            "tls.curvePreferences: an order of several cannot be kept here; name the only one to "
            "be offered, or none for all that are secure"
        )


def _job_selector(config: Configuration) -> Iterator[str]:
    path = "managedJobsNamespaceSelector"
    try:
        selector = label_selector_from(config.jobs_namespace_selector)
    except SelectorError as error:
        yield f"{path}: {error}"
        return
    for namespace in ("kube-system", config.namespace):
        if selector.matches({"kubernetes.io/metadata.name": namespace}):
            yield (
                f'{path}: must not match namespace "{namespace}"; exclude it with a NotIn '
                "expression"
            )


def _pods_ready(config: Configuration) -> Iterator[str]:
    section = config.wait_for_pods_ready
    if section is None:
        return
    path = "waitForPodsReady"
    yield from not_negative(f"{path}.timeout", section.timeout)
    yield from not_negative(f"{path}.recoveryTimeout", section.recovery_timeout)
    strategy = section.requeuing_strategy
    if strategy.timestamp not in {"Eviction", "Creation"}:
        yield (
            f'{path}.requeuingStrategy.timestamp: "{strategy.timestamp}": use Eviction or Creation'
        )
    for name, value in (
        ("backoffLimitCount", strategy.backoff_limit_count),
        ("backoffBaseSeconds", strategy.backoff_base_seconds),
        ("backoffMaxSeconds", strategy.backoff_max_seconds),
    ):
        if value is not None and value < 0:
            yield f"{path}.requeuingStrategy.{name}: {value} must not be negative"


def _unsupported_kinds(config: Configuration) -> Iterator[str]:
    if config.unsupported_kinds not in {WARN, DENY}:
        yield f'unsupportedKinds: "{config.unsupported_kinds}" is unknown; use {WARN} or {DENY}'


def _integrations(config: Configuration) -> Iterator[str]:
    section = config.integrations
    path = "integrations.frameworks"
    yield from unique(path, section.frameworks)
    for i, name in enumerate(section.frameworks):
        if name not in KNOWN_FRAMEWORKS:
            supported = ", ".join(sorted(SUPPORTED_FRAMEWORKS))
            yield f'{path}[{i}]: "{name}" is unknown; supported are {supported}'
    path = "integrations.externalFrameworks"
    yield from unique(path, section.external_frameworks)
    yield from _kinds(path, section.external_frameworks, config)
    for field, keys in (
        ("labelKeysToCopy", section.label_keys_to_copy),
        ("chargebackLabelKeys", section.chargeback_label_keys),
    ):
        for i, key in enumerate(keys):
            for problem in check_qualified_name(key):
                yield f'integrations.{field}[{i}]: "{key}": {problem}'


def _kinds(path: str, kinds: Iterable[str], config: Configuration) -> Iterator[str]:
    """Check the names of external kinds; an enabled kind cannot be external, too (J-4, M-210)."""
    frameworks = frozenset(config.integrations.frameworks)
    enabled = {row.external_name: row.framework for row in find_enabled(frameworks)}
    for i, kind in enumerate(kinds):
        if not _GVK.fullmatch(kind):
            yield (
                f'{path}[{i}]: "{kind}" must be Kind.version.group, such as '
                '"PipelineRun.v1.tekton.dev"'
            )
        elif kind in enabled:
            yield (
                f'{path}[{i}]: "{kind}" is the built-in kind "{enabled[kind]}"; remove it here, or '
                "from integrations.frameworks"
            )


EXEC_VERSIONS = frozenset(
    {"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}
)
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def _access_providers(path: str, profile: ClusterProfile | None) -> Iterator[str]:
    """Check the providers, each of which is a program that we will run (M-215)."""
    if profile is None:
        return
    for field, providers in (
        ("accessProviders", profile.access_providers),
        ("credentialsProviders", profile.credentials_providers),
    ):
        yield from unique(f"{path}.{field}", [provider.name for provider in providers])
        for i, provider in enumerate(providers):
            here, config = f"{path}.{field}[{i}]", provider.exec_config
            if not provider.name or not config.command:
                yield f"{here}: name and execConfig.command are required"
            if config.api_version not in EXEC_VERSIONS:
                yield (
                    f'{here}.execConfig.apiVersion: "{config.api_version}" is none of '
                    f"{', '.join(sorted(EXEC_VERSIONS))}"
                )
            if config.interactive_mode not in INTERACTIVE_MODES:
                yield (
                    f'{here}.execConfig.interactiveMode: "{config.interactive_mode}" is none of '
                    f"{', '.join(INTERACTIVE_MODES)}"
                )
            if any(not entry.get("name") for entry in config.env or ()):
                yield f"{here}.execConfig.env: each variable needs a name"


def _some(path: str, time: timedelta) -> Iterator[str]:
    if time <= timedelta():
        yield f"{path}: must be more than 0s"


def _multikueue(config: Configuration) -> Iterator[str]:
    section = config.multi_kueue
    path = "multiKueue"
    yield from not_negative(f"{path}.gcInterval", section.gc_interval)
    yield from not_negative(f"{path}.workerLostTimeout", section.worker_lost_timeout)
    yield from _some(f"{path}.drainPeriod", section.drain_period)
    yield from _some(f"{path}.preemptionTimeout", section.preemption_timeout)
    if section.drain_at_once < 1:
        yield f"{path}.drainAtOnce: {section.drain_at_once} must be at least 1"
    if not _LABEL_VALUE.fullmatch(section.origin):
        yield (
            f'{path}.origin: "{section.origin}" is not a label value (at most 63 of A-Z a-z 0-9 - '
            "_ .)"
        )
    if section.dispatch_profile and not _DNS_SUBDOMAIN.fullmatch(section.dispatch_profile):
        yield (
            f'{path}.dispatchProfile: "{section.dispatch_profile}" is no name of a DispatchProfile'
        )
    kinds = [framework.name for framework in section.external_frameworks]
    yield from unique(f"{path}.externalFrameworks", kinds)
    yield from _kinds(f"{path}.externalFrameworks", kinds, config)
    profile = section.cluster_profile
    if profile is not None and profile.access_providers and profile.credentials_providers:
        yield (
            f"{path}.clusterProfile: credentialsProviders is the old name of accessProviders; use "
            "one"
        )
    yield from _access_providers(f"{path}.clusterProfile", profile)
    incremental = section.incremental_dispatcher_config
    if incremental is None:
        return
    if incremental.step_size < 1:
        yield (
            f"{path}.incrementalDispatcherConfig.stepSize: {incremental.step_size} must be at "
            "least 1"
        )
    if section.dispatcher_name not in {names.DISPATCHER_INCREMENTAL, names.INCREMENTAL}:
        yield (
            f"{path}.incrementalDispatcherConfig: only with dispatcherName "
            f'"{names.DISPATCHER_INCREMENTAL}", not "{section.dispatcher_name}"'
        )


def _fair_sharing(config: Configuration) -> Iterator[str]:
    if config.fair_sharing is not None:
        strategies = config.fair_sharing.preemption_strategies
        if strategies not in {(FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE)}:
            yield (
                f"fairSharing.preemptionStrategies: {list(strategies)} must be [{FINAL_SHARE}], "
                f"[{INITIAL_SHARE}] or [{FINAL_SHARE}, {INITIAL_SHARE}]"
            )
    section = config.admission_fair_sharing
    if section is None:
        return
    yield from not_negative("admissionFairSharing.usageHalfLifeTime", section.usage_half_life_time)
    if section.usage_sampling_interval <= timedelta(0):
        yield "admissionFairSharing.usageSamplingInterval: must be greater than 0"
    if section.by not in {BY_LOCAL_QUEUE, BY_OWNER}:
        yield f"admissionFairSharing.by: {section.by} must be {BY_LOCAL_QUEUE} or {BY_OWNER}"
    for resource, weight in section.resource_weights.items():
        if weight < 0:
            yield f"admissionFairSharing.resourceWeights[{resource}]: {weight} must not be negative"


def _gates(config: Configuration) -> Iterator[str]:
    for gate, problem in find_gate_errors(config.feature_gates):
        yield f"featureGates.{gate}: {problem}"


def _retention(config: Configuration) -> Iterator[str]:
    policy = config.object_retention_policies.workloads
    if policy is None:
        return
    path = "objectRetentionPolicies.workloads"
    yield from not_negative(f"{path}.afterFinished", policy.after_finished)
    yield from not_negative(f"{path}.afterDeactivatedByKueue", policy.after_deactivated_by_kueue)


_RULES: tuple[Callable[[Configuration], Iterator[str]], ...] = (
    _namespace,
    ports,
    probes,
    leader_election,
    queue_metrics,
    _certificates,
    _tls,
    _job_selector,
    _pods_ready,
    controllers,
    _integrations,
    _unsupported_kinds,
    _multikueue,
    dispatcher_isolation,
    allowed_proxies,
    dashboard,
    notifications,
    traces,
    prices,
    _fair_sharing,
    resources,
    metric_labels,
    _gates,
    _retention,
    find_refused,
)
