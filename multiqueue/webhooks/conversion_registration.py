"""The conversion stanza of our CustomResourceDefinitions: whom the API server asks to convert.

The definitions come with a webhook behind the Service of the defaults and without an authority.
What is missing or differs is patched, and nothing else of a definition; whoever applies it again
does not own the authority and leaves it alone.
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
"""Names of the definitions that we may change."""

log = structlog.get_logger(component="webhooks")


def build_conversion(address: Address, authority: bytes) -> dict[str, Any]:
    """Return ``spec.conversion`` as it should be."""
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
    """Return the merge patch of a definition; None: it is as it should be, or has one version.

    It names only what differs: the rest belongs to whoever applied the definition.
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
    """What is to be known of conversion.

    Attributes:
        needed: Whether objects may be stored in a version that only we can read.
        problem: Why the API server cannot ask us, and what to do.
    """

    needed: bool
    problem: str | None


class ConversionRegistrar:
    """Keeps the stanza of all our definitions as it should be."""

    def __init__(self, client: KubeClient, address: Address) -> None:
        self._client = client
        self._address = address

    async def ensure(self, trust: CertificateTrust, authority: bytes) -> Converting:
        """Patch what differs; a kind that is not installed needs no conversion.

        Conversion cannot be ignored. If the API server would not trust us, the definition says so:
        until then its objects are refused in the version that they are not stored in.

        Args:
            trust: What the API server thinks of the certificate that is served.
            authority: PEM; empty where somebody else injects it.

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
