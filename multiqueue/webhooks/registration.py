"""The webhook configurations. Pure functions build them, `WebhookRegistrar` writes them.

An outage of this program must not stop other users. So a webhook sees a Job only if the Job names a
queue and its namespace is managed. A webhook that sets defaults on other Jobs is ignored if it
fails. An answer is required only while the API server trusts the served certificate.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog

from multiqueue.api.config import Configuration
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import GROUP, MULTIKUEUE_CONTROLLER, QUEUE_NAME, WEBHOOK_PROBLEM
from multiqueue.jobs.registry import IntegrationRegistry, SupportedKind
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import AlreadyExists, Forbidden, NotFound
from multiqueue.kube.resources import (
    MUTATING_WEBHOOKS,
    QUOTA_PLANS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import (
    REMEDY,
    Address,
    build_problem_patch,
    bundle_of,
    covers,
)
from multiqueue.webhooks.endpoints import (
    DECLARED,
    MUTATE_QUOTA_PLANS,
    MUTATE_UNLABELLED,
    MUTATED_KINDS,
    VALIDATE_UNQUEUED,
    VALIDATED_KINDS,
    job_path,
    mutate_path,
    validate_path,
)

MUTATING_NAME = "kueue-mutating-webhook-configuration"
VALIDATING_NAME = "kueue-validating-webhook-configuration"
FAIL_TIMEOUT_SECONDS = 10
IGNORE_TIMEOUT_SECONDS = 2
"""The timeout is short, because these calls are about objects of users without a queue."""
MUST_BE_CHECKED = frozenset({"ClusterQueue", "Cohort", "ResourceFlavor", "Workload"})
"""The CRDs alone check the other kinds well enough while the webhooks are away."""
_PLURALS = {"Topology": "topologies"}

log = structlog.get_logger(component="webhooks")


def build_configurations(
    config: Configuration, kinds: IntegrationRegistry, address: Address, authority: bytes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the wanted mutating and validating configurations."""
    build = _Builder(config, kinds, address, authority)
    mutating = [build.kind_hook("m", kind, ("CREATE",)) for kind in MUTATED_KINDS]
    mutating.append(build.approval_hook())
    mutating.extend(build.mutating_job_hooks())
    validating = [build.kind_hook("v", kind, ("CREATE", "UPDATE")) for kind in VALIDATED_KINDS]
    validating.extend(build.validating_job_hooks())
    validating.append(build.unqueued_hook())
    return (
        _configuration("MutatingWebhookConfiguration", MUTATING_NAME, mutating),
        _configuration("ValidatingWebhookConfiguration", VALIDATING_NAME, validating),
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    config: Configuration
    kinds: IntegrationRegistry
    address: Address
    authority: bytes

    @property
    def job_kinds(self) -> Sequence[SupportedKind]:
        """The kinds of jobs that this program queues itself."""
        return [kind for kind in self.kinds.kinds if not kind.is_external]

    def kind_hook(self, prefix: str, kind: str, operations: Sequence[str]) -> dict[str, Any]:
        mutates = prefix == "m"
        plural = _PLURALS.get(kind, f"{kind.lower()}s")
        resources = [plural] if mutates or kind != "Workload" else [plural, f"{plural}/status"]
        return self._hook(
            f"{prefix}{kind.lower()}.kb.io",
            mutate_path(kind) if mutates else validate_path(kind),
            [
                {
                    "apiGroups": [GROUP],
                    "apiVersions": ["v1beta2"],
                    "operations": list(operations),
                    "resources": resources,
                    "scope": "*",
                }
            ],
            must_answer=kind in MUST_BE_CHECKED,
        )

    def approval_hook(self) -> dict[str, Any]:
        """Return the webhook that says who agreed to a change of quotas."""
        rule = {
            "apiGroups": [QUOTA_PLANS.group],
            "apiVersions": [QUOTA_PLANS.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [QUOTA_PLANS.plural],
            "scope": "Cluster",
        }
        return self._hook("mquotaplan.kb.io", MUTATE_QUOTA_PLANS, [rule], must_answer=True)

    def mutating_job_hooks(self) -> list[dict[str, Any]]:
        """Return a webhook for each kind, for jobs with a queue; one, ignored in an outage, for
        jobs without.
        """
        hooks = [
            self.job_hook(
                f"m{_name(kind)}",
                _path("mutate", kind),
                [_job_rule(kind, kind.webhook.mutates_on)],
                condition=kind.scope(self.config).queued,
            )
            for kind in self.job_kinds
        ]
        if self.config.manage_jobs_without_queue_name:
            return hooks
        by_condition: dict[str, list[dict[str, Any]]] = {}
        for kind in self.job_kinds:
            condition = kind.scope(self.config).others
            if condition is not None:
                by_condition.setdefault(condition, []).append(_job_rule(kind, ("CREATE",)))
        for condition, rules in by_condition.items():
            name = f"m{rules[0]['resources'][0].removesuffix('s')}default" if condition else ""
            others = self.job_hook(
                name or "mjobdefault",
                MUTATE_UNLABELLED,
                rules,
                must_answer=False,
                condition=condition,
            )
            hooks.append({**others, "objectSelector": _queue_label("DoesNotExist")})
        return hooks

    def validating_job_hooks(self) -> list[dict[str, Any]]:
        """Return a webhook for each kind."""
        hooks = []
        for kind in self.job_kinds:
            scope = kind.scope(self.config)
            hook = self.job_hook(
                f"v{_name(kind)}",
                _path("validate", kind),
                [_job_rule(kind, ("CREATE", "UPDATE"))],
                condition=scope.queued,
            )
            if scope.validated:
                only = {"name": "validated", "expression": scope.validated}
                hook["matchConditions"] = [*hook.get("matchConditions", ()), only]
            hooks.append(hook)
        return hooks

    def job_hook(
        self,
        name: str,
        path: str,
        rules: Sequence[Mapping[str, Any]],
        *,
        must_answer: bool = True,
        condition: str = "",
    ) -> dict[str, Any]:
        """Return a webhook about jobs: those with a queue label, or those that meet a condition."""
        hook = self._hook(f"{name}.kb.io", path, rules, must_answer=must_answer)
        hook["namespaceSelector"] = _as_stored(self.config.jobs_namespace_selector)
        if self.config.manage_jobs_without_queue_name:
            return hook
        if condition:
            return {**hook, "matchConditions": [{"name": "concerned", "expression": condition}]}
        return {**hook, "objectSelector": _queue_label("Exists")}

    def unqueued_hook(self) -> dict[str, Any]:
        """Return the webhook of kinds that are not queued; only a queue label causes a call."""
        plurals: dict[str, list[str]] = {}
        enabled = {kind.integration.name for kind in self.kinds.kinds}
        for kind in JOB_KINDS:
            if kind.framework in enabled:
                continue
            plurals.setdefault(kind.group, []).append(kind.plural)
        rules = [
            {
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": names,
                "scope": "Namespaced",
            }
            for group, names in plurals.items()
        ]
        name = "unqueued.multiqueue.dev"
        hook = self._hook(name, VALIDATE_UNQUEUED, rules, must_answer=False)
        hook["namespaceSelector"] = _as_stored(self.config.jobs_namespace_selector)
        hook["objectSelector"] = _queue_label("Exists")
        return hook

    def _hook(
        self, name: str, path: str, rules: Sequence[Mapping[str, Any]], *, must_answer: bool
    ) -> dict[str, Any]:
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.address.client_config(path, self.authority),
            "failurePolicy": "Fail" if must_answer else "Ignore",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "rules": [dict(rule) for rule in rules],
            "sideEffects": "None",
            "timeoutSeconds": FAIL_TIMEOUT_SECONDS if must_answer else IGNORE_TIMEOUT_SECONDS,
        }


def _name(kind: SupportedKind) -> str:
    """Return what the names of a kind's webhooks have; only declared kinds may share their kind."""
    gvk = kind.integration.gvk
    name = gvk.kind.lower()
    return f"{name}.{gvk.group}" if kind.is_declared else name


def _path(verb: str, kind: SupportedKind) -> str:
    return f"/{verb}-{DECLARED}" if kind.is_declared else job_path(verb, kind.integration.gvk)


def _job_rule(kind: SupportedKind, operations: Sequence[str]) -> dict[str, Any]:
    resource = kind.integration.resource
    return {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": list(operations),
        "resources": [resource.plural],
        "scope": "Namespaced",
    }


def _queue_label(operator: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": QUEUE_NAME, "operator": operator}]}


def _as_stored(selector: Mapping[str, Any]) -> dict[str, Any]:
    """Return the selector without empty fields, as the API server returns it."""
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


class WebhookRegistrar:
    """Keeps the two configurations up to date."""

    def __init__(
        self,
        client: KubeClient,
        config: Configuration,
        kinds: IntegrationRegistry,
        address: Address,
    ) -> None:
        self._client = client
        self._config = config
        self._kinds = kinds
        self._address = address

    async def ensure(self, trust: CertificateTrust, authority: bytes) -> str | None:
        """Write differences.

        Args:
            trust: Whether the API server trusts the served certificate.
            authority: The CA in PEM; empty if something else injects it.

        Returns:
            Why the API server does not call all webhooks, and what to do.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
        """
        problems = []
        configurations = build_configurations(self._config, self._kinds, self._address, authority)
        for resource, wanted in zip(
            (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS), configurations, strict=True
        ):
            problems.append(await ensure_configuration(self._client, resource, wanted, trust))
        return next(filter(None, problems), None)


async def ensure_configuration(
    client: KubeClient, resource: Resource, wanted: dict[str, Any], trust: CertificateTrust
) -> str | None:
    """Create a webhook configuration, or write differences.

    A webhook that the API server cannot call is ignored until it can, and the configuration says
    why. In a cluster the configuration comes with the manifests, and the manager may not create it.

    Returns:
        Why the API server cannot call the webhook, and what to do.

    Raises:
        KubeError: the API server refuses, or cannot be asked.
    """
    name = wanted["metadata"]["name"]
    try:
        current = await client.get(resource, name)
    except NotFound:
        body, problem = with_trust(wanted, {}, trust)
        try:
            await client.create(resource, body)
        except AlreadyExists:
            current = await client.get(resource, name)
        except Forbidden:
            return (
                f'{resource.kind} "{name}" is missing, and this manager may not create it; apply '
                "the manifests: kubectl apply --server-side -k config/webhook"
            )
        else:
            log.info("webhook configuration created", name=name)
            return problem
    body, problem = with_trust(wanted, current, trust)
    patch: dict[str, Any] = {}
    if not covers(current.get("webhooks"), body["webhooks"]):
        patch["webhooks"] = body["webhooks"]
    patch.update(build_problem_patch(current, problem))
    if patch:
        await client.patch(resource, name, patch)
        log.info("webhook configuration updated", name=name)
    return problem


def with_trust(
    wanted: Mapping[str, Any], current: Mapping[str, Any], trust: CertificateTrust
) -> tuple[dict[str, Any], str | None]:
    """Return a configuration that fails no write for lack of trust, and the problem, if any.

    If something else injects the CA, as cert-manager does, the current one is kept.
    """
    present = {hook["name"]: hook.get("clientConfig") for hook in current.get("webhooks") or ()}
    hooks, problem = [], None
    for hook in wanted["webhooks"]:
        config = dict(hook["clientConfig"])
        bundle, why = trust.choose(bundle_of(config), bundle_of(present.get(hook["name"])))
        config.pop("caBundle", None)
        if bundle:
            config["caBundle"] = base64.b64encode(bundle).decode()
        policy = hook["failurePolicy"] if why is None else "Ignore"
        hooks.append({**hook, "clientConfig": config, "failurePolicy": policy})
        problem = problem or why
    metadata = wanted["metadata"]
    if problem is not None:
        problem = (
            f'the API server would not trust the certificate of "{trust.host}": {problem}. '
            "failurePolicy is Ignore until it would, so nothing is defaulted or checked, and Jobs "
            f"for workers need spec.managedBy: {MULTIKUEUE_CONTROLLER} from their authors; {REMEDY}"
        )
        metadata = {**metadata, "annotations": {WEBHOOK_PROBLEM: problem}}
    return {**wanted, "metadata": metadata, "webhooks": hooks}, problem


async def release(client: KubeClient, host: str) -> list[str]:
    """Make webhooks with a URL on this host optional, because nothing answers there now.

    Returns the changed configurations; `WebhookRegistrar.ensure` makes them required again.

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
