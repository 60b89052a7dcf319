"""Rules about addresses, probes, and the Lease."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator
from datetime import timedelta

from multiqueue.api.config.checks import unique
from multiqueue.api.config.types import JSON, PROXY, SLACK, TOKEN, Configuration
from multiqueue.api.serde import encode
from multiqueue.lib.addresses import is_loopback
from multiqueue.lib.selectors import SelectorError, label_selector_from
from multiqueue.lib.server_address import PROXY_SCHEMES, AddressError, parse_server

_ADDRESS = re.compile(r"(?:[^\s:\[\]]*|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
_ENDPOINT = re.compile(r"/?[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_BASE = re.compile(r"(?!/(?:apis|assets)(?:/|$))(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def ports(config: Configuration) -> Iterator[str]:
    """Check the addresses that our servers listen on."""
    if config.webhook.port:  # 0: any free port
        yield from _port("webhook.port", config.webhook.port)
    yield from _port("visibilityServer.bindPort", config.visibility_server.bind_port)
    address = config.visibility_server.bind_address
    if address:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            yield f'visibilityServer.bindAddress: "{address}" is not an IP address'
    yield from _bind_address("metrics.bindAddress", config.metrics.bind_address)
    yield from _bind_address(
        "health.healthProbeBindAddress", config.health.health_probe_bind_address
    )
    yield from _bind_address("pprofBindAddress", config.pprof_bind_address)


def dashboard(config: Configuration) -> Iterator[str]:
    """Check where the dashboard listens, and how its readers reach it."""
    section = config.dashboard
    yield from _bind_address("dashboard.bindAddress", section.bind_address)
    if section.url:
        try:
            path = parse_server(section.url, schemes=("https",)).path
            if not _BASE.fullmatch(path):
                yield (
                    f'dashboard.url: the dashboard cannot be below "{path}"; write a path of '
                    'letters, digits, "-", "_" and "." that begins neither with /apis nor with '
                    "/assets, such as https://host/queue"
                )
        except AddressError as error:
            yield (
                f"dashboard.url: an address that {error}; write a URL such as "
                '"https://queue.example.com"'
            )
    if section.auth.mode not in {TOKEN, PROXY}:
        yield f'dashboard.auth.mode: "{section.auth.mode}" is unknown; use {TOKEN} or {PROXY}'
    if section.auth.mode == PROXY and not section.url:
        yield (
            "dashboard.url: it is empty, and with dashboard.auth.mode Proxy requests come by the "
            "host name of the proxy; write the URL that readers open, such as "
            '"https://queue.example.com"'
        )


def _port(path: str, value: int) -> Iterator[str]:
    if not 1 <= value <= 65535:
        yield f"{path}: {value} is not a port; use 1 to 65535"


def _bind_address(path: str, value: str) -> Iterator[str]:
    if value in {"", "0"}:
        return
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        yield f'{path}: "{value}" is not an address; write host:port, such as ":8443", or "0"'


def allowed_proxies(config: Configuration) -> Iterator[str]:
    """Check the proxies that kubeconfigs of workers may name."""
    for i, proxy in enumerate(config.multi_kueue.allowed_proxies):
        path = f"multiKueue.allowedProxies[{i}]"
        try:
            address = parse_server(proxy, schemes=PROXY_SCHEMES)
        except AddressError as error:
            yield f'{path}: a proxy that {error}; write a URL such as "http://proxy.example:3128"'
            continue
        if address.path:
            yield f'{path}: "{proxy}" has a path; a proxy has none'


def notifications(config: Configuration) -> Iterator[str]:
    """Check who is told about jobs."""
    path = "notifications.receivers"
    receivers = config.notifications.receivers
    yield from unique(path, (receiver.name for receiver in receivers))
    for i, receiver in enumerate(receivers):
        if not _DNS_SUBDOMAIN.fullmatch(receiver.name):
            yield f'{path}[{i}].name: "{receiver.name}" is not a name; use a-z, 0-9, "-" and "."'
        if not receiver.url_file.startswith("/"):
            yield (
                f'{path}[{i}].urlFile: "{receiver.url_file}" is not the path of a file; mount a '
                'Secret with the URL, and write a path such as "/etc/notify/chat"'
            )
        if receiver.key_file and not receiver.key_file.startswith("/"):
            yield (
                f'{path}[{i}].keyFile: "{receiver.key_file}" is not the path of a file; mount a '
                'Secret with the key, and write a path such as "/etc/notify/key"'
            )
        if receiver.format not in {JSON, SLACK}:
            yield f'{path}[{i}].format: "{receiver.format}" is unknown; use {JSON} or {SLACK}'


def traces(config: Configuration) -> Iterator[str]:
    """Check where traces are sent."""
    section = config.traces
    if section.endpoint:
        try:
            found = parse_server(section.endpoint, schemes=PROXY_SCHEMES)
            if found.scheme == "http" and not is_loopback(found.host):
                yield (
                    "traces.endpoint: an address that would get names of jobs unencrypted; use "
                    "https, or a collector on this machine such as http://127.0.0.1:4318/v1/traces"
                )
        except AddressError as error:
            yield (
                f"traces.endpoint: an address that {error}; write a URL such as "
                '"https://collector.example.com/v1/traces"'
            )
    if not 0 <= section.sample <= 1:  # neither is NaN
        yield f"traces.sample: {section.sample:g} is no share; use 0 to 1"
    if section.headers_file and not section.headers_file.startswith("/"):
        yield (
            f'traces.headersFile: "{section.headers_file}" is not the path of a file; mount a '
            'Secret with the headers, and write a path such as "/etc/traces/headers"'
        )


def probes(config: Configuration) -> Iterator[str]:
    """Check the names of the probe endpoints."""
    health = config.health
    names = {
        "readinessEndpointName": health.readiness_endpoint_name,
        "livenessEndpointName": health.liveness_endpoint_name,
    }
    for field, name in names.items():
        if not _ENDPOINT.fullmatch(name):
            yield f'health.{field}: "{name}" is not a path; use a name such as "readyz"'
    if len({name.lstrip("/") for name in names.values()}) == 1:
        yield (
            f'health.livenessEndpointName: "{health.liveness_endpoint_name}" is the readiness '
            "endpoint, too; use two names"
        )


def queue_metrics(config: Configuration) -> Iterator[str]:
    """Check the selector of LocalQueues with metrics."""
    selector = config.metrics.local_queue_metrics.local_queue_selector
    if selector is None:
        return
    try:
        label_selector_from(encode(selector))
    except SelectorError as error:
        yield f"metrics.localQueueMetrics.localQueueSelector: {error}"


def leader_election(config: Configuration) -> Iterator[str]:
    """Check the Lease and its durations."""
    election = config.leader_election
    if not election.lease_duration > election.renew_deadline > election.retry_period > timedelta(0):
        yield (
            "leaderElection: leaseDuration > renewDeadline > retryPeriod > 0 must hold; got "
            f"{election.lease_duration}, {election.renew_deadline}, {election.retry_period}"
        )
    if election.resource_lock != "leases":
        yield (
            f'leaderElection.resourceLock: "{election.resource_lock}" is not supported; use '
            '"leases"'
        )
    if not _DNS_SUBDOMAIN.fullmatch(election.resource_name):
        yield (
            f'leaderElection.resourceName: "{election.resource_name}" is not the name of a Lease; '
            'use lower case letters, digits, "-" and "."'
        )


def controllers(config: Configuration) -> Iterator[str]:
    """Check the concurrency of reconcilers and the limits of requests."""
    connection = config.client_connection
    if not 0 < connection.qps < math.inf or connection.burst <= 0:
        yield (
            f"clientConnection: qps {connection.qps} and burst {connection.burst} must be greater "
            "than 0"
        )
    section = config.controller
    for kind, workers in section.group_kind_concurrency.items():
        if workers < 1:
            yield f"controller.groupKindConcurrency[{kind}]: {workers} must be at least 1"
    if section.cache_sync_timeout <= timedelta(0):
        yield "controller.cacheSyncTimeout: must be greater than 0"
