"""The conversion section of our CustomResourceDefinitions, which names the webhook.

The definitions are shipped with a webhook behind the default Service and without a CA. Missing or
different fields of this section are patched, and nothing else. Users who apply the definition again
do not own the CA, so it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from multiqueue.api.crd.kinds import KINDS
from multiqueue.api.names import GROUP, V1BETA1, V1BETA2
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.resources import CRDS
from multiqueue.kube.trust import CertificateTrust
from multiqueue.webhooks.addresses import REMEDY, Address, build_problem_patch, bundle_of
from multiqueue.webhooks.endpoints import CONVERT

DEFINITIONS = tuple(f"{kind.plural}.{GROUP}" for kind in KINDS)
"""The names of the definitions that may be patched."""

log = structlog.get_logger(component="webhooks")


def build_conversion(address: Address, authority: bytes) -> dict[str, Any]:
    """Return the wanted ``spec.conversion``."""
    return {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": address.client_config(CONVERT, authority),
        },
    }


def build_conversion_patch(
    definition: Mapping[str, Any], wanted: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the merge patch of a definition; None: it is right, or has one version only.

    It contains only the differences; the rest belongs to the user who applied the definition.
    """
    spec = definition["spec"]
    current = spec.get("conversion") or {}
    differing = _differing(current, wanted)
    config = _client_config(definition)
    for name in sorted({"url", "service"} & set(config) - set(wanted["webhook"]["clientConfig"])):
        webhook = differing.setdefault("webhook", {})
        webhook.setdefault("clientConfig", {})[name] = None
    if not differing or len(spec["versions"]) < 2:
        return None
    return {"spec": {"conversion": differing}}


def is_stored_otherwise(definition: Mapping[str, Any]) -> bool:
    """Whether objects may be stored in another version than the one that is read here."""
    stored = (definition.get("status") or {}).get("storedVersions") or ()
    return any(f"{GROUP}/{version}" != V1BETA2 for version in stored)


def _differing(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name, value in wanted.items():
        have = current.get(name)
        if isinstance(value, Mapping) and isinstance(have, Mapping):
            if inner := _differing(have, value):
                patch[name] = inner
        elif have != value:
            patch[name] = value
    return patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Converting:
    """The state of conversion.

    Attributes:
        needed: Whether objects may be stored in a version that only our webhook can convert.
        problem: Why the API server cannot call the webhook, and what to do.
    """

    needed: bool
    problem: str | None


class ConversionRegistrar:
    """Keeps the conversion section of all our definitions up to date."""

    def __init__(self, client: KubeClient, address: Address) -> None:
        self._client = client
        self._address = address

    async def ensure(self, trust: CertificateTrust, authority: bytes) -> Converting:
        """Patch differences; a kind that is not installed needs no conversion.

        The API server cannot skip conversion. If it does not trust the certificate, the definition
        notes the problem. Until it is solved, requests for other versions than the stored one fail.

        Args:
            trust: Whether the API server trusts the served certificate.
            authority: The CA in PEM; empty if something else injects it.

        Raises:
            KubeError: the API server refuses, or cannot be asked.
        """
        needed, problem = False, None
        for name in DEFINITIONS:
            try:
                definition = await self._client.get(CRDS, name)
            except NotFound:
                continue
            needed = needed or is_stored_otherwise(definition)
            bundle, why = trust.choose(authority, bundle_of(_client_config(definition)))
            problem = problem or (_sentence(trust.host, why) if why else None)
            patch = build_conversion_patch(definition, build_conversion(self._address, bundle))
            told = build_problem_patch(definition, problem)
            if patch is not None or told:
                await self._client.patch(CRDS, name, {**(patch or {}), **told})
                log.info("conversion registered", definition=name)
        return Converting(needed=needed, problem=problem)


def _client_config(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    webhook = (definition["spec"].get("conversion") or {}).get("webhook") or {}
    config: Mapping[str, Any] = webhook.get("clientConfig") or {}
    return config


def _sentence(host: str, why: str) -> str:
    return (
        f'the API server would not trust the certificate of "{host}": {why}. Until it would, '
        f"objects are refused in {V1BETA1}, and those that are stored in it cannot be read at all; "
        f"{REMEDY}"
    )
