"""Checks for ``multiqueue config check`` whether the API server would trust the webhooks."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from multiqueue.api.config import Configuration
from multiqueue.api.names import WEBHOOK_PROBLEM
from multiqueue.cli.connect import ClusterTarget, connect
from multiqueue.kube.certificate_source import FileCertificates, Serving
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, KubeError, NotFound
from multiqueue.kube.resources import CRDS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import REMEDY, bundle_of
from multiqueue.webhooks.conversion_registration import DEFINITIONS
from multiqueue.webhooks.registration import MUTATING_NAME, VALIDATING_NAME
from multiqueue.webhooks.setup import is_reached_by_url, serving_hosts

REGISTRATIONS = (
    (MUTATING_WEBHOOKS, MUTATING_NAME),
    (VALIDATING_WEBHOOKS, VALIDATING_NAME),
    *((CRDS, name) for name in DEFINITIONS),
)
OFF = "internalCertManagement.enable: false"


@dataclass(slots=True)
class Judged:
    """Errors and warnings."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def check_files(config: Configuration) -> Judged:
    """Check the certificate files alone; they may be on another machine."""
    judged = Judged()
    if config.internal_cert_management.enable:
        return judged
    serving = await _read_files(config, judged)
    if serving is None or not serving.authority:
        judged.warnings.append(
            f"{OFF}: the API server must be told who signed the certificate of the webhooks: by "
            f'"{config.webhook.cert_dir}/ca.crt", or by a caBundle that somebody injects; '
            "--cluster verifies it"
        )
        return judged
    problem = _find_problem(_host(config, {}), serving, {})
    if problem is not None:
        judged.errors.append(f"webhook.certDir: {problem}")
    return judged


async def check_cluster(target: ClusterTarget, config: Configuration) -> Judged:
    """Check the registration in a cluster, and the certificate if it can be read."""
    judged, problems = Judged(), dict[str, list[str]]()
    async with connect(target) as (client, _):
        serving = None
        if not config.internal_cert_management.enable:
            serving = await _read_files(config, judged) or await _read_secret(client, config)
            if serving is None and not judged.errors:
                judged.warnings.append(
                    f"{OFF}: the certificate could not be read, neither in "
                    f'"{config.webhook.cert_dir}" nor in its Secret; run this where it is mounted'
                )
        for resource, name in REGISTRATIONS:
            title = f'{resource.kind} "{name}"'
            try:
                found = await client.get(resource, name)
            except NotFound:
                if resource is not CRDS:
                    judged.warnings.append(
                        f"{title}: is missing, and a manager in the cluster may not create it; "
                        "kubectl apply --server-side -k config/webhook"
                    )
            except Forbidden:
                judged.warnings.append(f"{title}: not allowed to get it")
            else:
                problem = _find_registered(found, serving, config)
                if problem is not None:
                    problems.setdefault(problem, []).append(title)
    for problem, titles in problems.items():
        others = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        judged.errors.append(f"{titles[0]}{others}: {problem}")
    return judged


def _find_registered(
    found: Mapping[str, Any], serving: Serving | None, config: Configuration
) -> str | None:
    """Return the problem of a registration: by our own check, or else the manager's note."""
    if serving is None:
        told: str | None = (found["metadata"].get("annotations") or {}).get(WEBHOOK_PROBLEM)
        return told
    for client_config in _client_configs(found) or [{}]:
        problem = _find_problem(_host(config, client_config), serving, client_config)
        if problem is not None:
            return problem
    return None


def _find_problem(host: str, serving: Serving, client_config: Mapping[str, Any]) -> str | None:
    try:
        trust = CertificateTrust(serving.certificate, serving.key, host)
    except (ssl.SSLError, ValueError) as error:
        return f"tls.crt and tls.key are unusable, or not a pair: {error}"
    _, problem = trust.choose(serving.authority, bundle_of(client_config))
    if problem is None:
        return None
    return f'the API server would not trust the certificate of "{host}": {problem}; {REMEDY}'


def _client_configs(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spec: Mapping[str, Any] = found.get("spec") or {}
    conversion = (spec.get("conversion") or {}).get("webhook") or {}
    return [
        hook["clientConfig"]
        for hook in (*(found.get("webhooks") or ()), conversion)
        if hook.get("clientConfig")
    ]


def _host(config: Configuration, client_config: Mapping[str, Any]) -> str:
    """Return the host name that the API server uses, as registered or as it will be."""
    if service := client_config.get("service"):
        return f"{service['name']}.{service['namespace']}.svc"
    if url := client_config.get("url"):
        return urlsplit(url).hostname or ""
    in_cluster = {"KUBERNETES_SERVICE_HOST": "-"}
    by_url = is_reached_by_url(config, in_cluster)
    return config.webhook.host if by_url else serving_hosts(config, "")[0]


async def _read_files(config: Configuration, judged: Judged) -> Serving | None:
    """Read the mounted certificate, if it exists."""
    try:
        return await FileCertificates(Path(config.webhook.cert_dir)).load()
    except FileNotFoundError:
        return None
    except OSError as error:
        judged.errors.append(f"webhook.certDir: {error}; the webhooks need tls.crt and tls.key")
        return None


async def _read_secret(client: KubeClient, config: Configuration) -> Serving | None:
    """Return the certificate in the Secret from which the files are usually mounted."""
    name = config.internal_cert_management.webhook_secret_name
    try:
        secret = await client.get(SECRETS, name, namespace=config.namespace)
        data: Mapping[str, str] = secret.get("data") or {}
        return Serving(
            certificate=base64.b64decode(data["tls.crt"]),
            key=base64.b64decode(data["tls.key"]),
            authority=base64.b64decode(data.get("ca.crt", "")),
        )
    except (KubeError, KeyError, binascii.Error):
        return None
