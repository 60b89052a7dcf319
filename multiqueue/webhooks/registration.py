"""The webhook configurations: who is asked about what. Built purely, written by `Registrar`.

An outage of ours must not stop others: Jobs are only seen where they ask for a queue and their
namespace is managed; what defaults others' Jobs is ignored when it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog

from multiqueue.api.config import Configuration
from multiqueue.api.names import GROUP, QUEUE_NAME
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, NotFound
from multiqueue.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from multiqueue.webhooks.addresses import Address, covers
from multiqueue.webhooks.endpoints import (
    MUTATE_JOB,
    MUTATED_KINDS,
    VALIDATE_JOB,
    VALIDATED_KINDS,
    mutate_path,
    validate_path,
)

MUTATING_NAME = "kueue-mutating-webhook-configuration"
VALIDATING_NAME = "kueue-validating-webhook-configuration"
FAIL_TIMEOUT_SECONDS = 10
IGNORE_TIMEOUT_SECONDS = 2
"""Short: these calls concern objects of people who never asked for us."""
MUST_BE_CHECKED = frozenset({"ClusterQueue", "Cohort", "ResourceFlavor", "Workload"})
"""The CRDs alone check the other kinds well enough while we are away."""
_PLURALS = {"Topology": "topologies"}

log = structlog.get_logger(component="webhooks")


def build_configurations(
    config: Configuration, address: Address, authority: bytes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mutating and the validating configuration, as they should be."""
    build = _Builder(config, address, authority)
    mutating = [build.kind_hook("m", kind, ("CREATE",)) for kind in MUTATED_KINDS]
    mutating.extend(build.mutating_job_hooks())
    validating = [build.kind_hook("v", kind, ("CREATE", "UPDATE")) for kind in VALIDATED_KINDS]
    validating.append(build.job_hook("vjob", VALIDATE_JOB, ("CREATE", "UPDATE")))
    return (
        _configuration("MutatingWebhookConfiguration", MUTATING_NAME, mutating),
        _configuration("ValidatingWebhookConfiguration", VALIDATING_NAME, validating),
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    config: Configuration
    address: Address
    authority: bytes

    def kind_hook(self, prefix: str, kind: str, operations: Sequence[str]) -> dict[str, Any]:
        mutates = prefix == "m"
        plural = _PLURALS.get(kind, f"{kind.lower()}s")
        resources = [plural] if mutates or kind != "Workload" else [plural, f"{plural}/status"]
        return self._hook(
            f"{prefix}{kind.lower()}.kb.io",
            mutate_path(kind) if mutates else validate_path(kind),
            {
                "apiGroups": [GROUP],
                "apiVersions": ["v1beta2"],
                "operations": list(operations),
                "resources": resources,
                "scope": "*",
            },
            must_answer=kind in MUST_BE_CHECKED,
        )

    def mutating_job_hooks(self) -> list[dict[str, Any]]:
        """One for Jobs that ask for a queue; one, ignored in an outage, that may give them one."""
        queued = self.job_hook("mjob", MUTATE_JOB, ("CREATE",))
        if self.config.manage_jobs_without_queue_name:
            return [queued]
        unqueued = self.job_hook("mjobdefault", MUTATE_JOB, ("CREATE",), must_answer=False)
        unqueued["objectSelector"] = _queue_label("DoesNotExist")
        return [queued, unqueued]

    def job_hook(
        self, name: str, path: str, operations: Sequence[str], *, must_answer: bool = True
    ) -> dict[str, Any]:
        rule = {
            "apiGroups": ["batch"],
            "apiVersions": ["v1"],
            "operations": list(operations),
            "resources": ["jobs"],
            "scope": "Namespaced",
        }
        hook = self._hook(f"{name}.kb.io", path, rule, must_answer=must_answer)
        hook["namespaceSelector"] = _as_stored(self.config.jobs_namespace_selector)
        if not self.config.manage_jobs_without_queue_name:
            hook["objectSelector"] = _queue_label("Exists")
        return hook

    def _hook(
        self, name: str, path: str, rule: Mapping[str, Any], *, must_answer: bool
    ) -> dict[str, Any]:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.address.client_config(path, self.authority),
            "failurePolicy": "Fail" if must_answer else "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": [dict(rule)],
            "sideEffects": "None",
            "timeoutSeconds": FAIL_TIMEOUT_SECONDS if must_answer else IGNORE_TIMEOUT_SECONDS,
        }


def _queue_label(operator: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": QUEUE_NAME, "operator": operator}]}


def _as_stored(selector: Mapping[str, Any]) -> dict[str, Any]:
    """The selector without what is empty, as the API server gives it back."""
    terms = [
        {name: value for name, value in term.items() if value}
        for term in selector.get("matchExpressions") or ()
    ]
    whole = {"matchLabels": selector.get("matchLabels"), "matchExpressions": terms}
    return {name: value for name, value in whole.items() if value}


def _configuration(kind: str, name: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "multiqueue"}},
        "webhooks": hooks,
    }


class Registrar:
    """Keeps the two configurations as they should be."""

    def __init__(self, client: KubeClient, config: Configuration, address: Address) -> None:
        self._client = client
        self._config = config
        self._address = address

    async def ensure(self, authority: bytes) -> None:
        """Write what differs.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
        """
        mutating, validating = build_configurations(self._config, self._address, authority)
        await ensure_configuration(self._client, MUTATING_WEBHOOKS, mutating)
        await ensure_configuration(self._client, VALIDATING_WEBHOOKS, validating)


async def ensure_configuration(
    client: KubeClient, resource: Resource, wanted: dict[str, Any]
) -> None:
    """Create a webhook configuration, or write what differs.

    Raises:
        KubeError: the API server refuses, or cannot be asked.
    """
    name = wanted["metadata"]["name"]
    try:
        current = await client.get(resource, name)
    except NotFound:
        try:
            await client.create(resource, wanted)
            log.info("webhook configuration created", name=name)
        except AlreadyExists:
            current = await client.get(resource, name)
        else:
            return
    if not covers(current.get("webhooks"), wanted["webhooks"]):
        await client.patch(resource, name, {"webhooks": _kept_bundles(current, wanted)})
        log.info("webhook configuration updated", name=name)


async def release(client: KubeClient, host: str) -> list[str]:
    """Let the API server go on where it asks this host by URL: nobody answers there.

    Returns the configurations that were changed; `Registrar.ensure` makes them strict again.

    Raises:
        KubeError: the API server refuses, or cannot be asked.
    """
    released = []
    for resource, name in (
        (MUTATING_WEBHOOKS, MUTATING_NAME),
        (VALIDATING_WEBHOOKS, VALIDATING_NAME),
    ):
        try:
            current = await client.get(resource, name)
        except NotFound:
            continue
        before = current.get("webhooks") or []
        hooks = [
            {**hook, "failurePolicy": "Ignore"} if _is_asked_at(hook, host) else hook
            for hook in before
        ]
        if hooks != before:
            await client.patch(resource, name, {"webhooks": hooks})
            released.append(name)
    return released


def _is_asked_at(hook: Mapping[str, Any], host: str) -> bool:
    return urlsplit(hook["clientConfig"].get("url") or "").hostname == host


def _kept_bundles(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where somebody else injects the authority, as cert-manager does, keep what is there."""
    bundles = {
        hook["name"]: (hook.get("clientConfig") or {}).get("caBundle")
        for hook in current.get("webhooks") or ()
    }
    hooks = [dict(hook) for hook in wanted["webhooks"]]
    for hook in hooks:
        bundle = bundles.get(hook["name"])
        if bundle and "caBundle" not in hook["clientConfig"]:
            hook["clientConfig"] = {**hook["clientConfig"], "caBundle": bundle}
    return hooks
