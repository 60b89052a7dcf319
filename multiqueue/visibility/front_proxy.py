"""The authorities that the cluster trusts to identify users.

Pure: reads the ConfigMap `kube-system/extension-apiserver-authentication`, which every API server
publishes, into certificates and header names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"

log = structlog.get_logger(component="visibility")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxyTrust:
    """Certificate authorities and lower-case header names; empty ``allowed_names`` allow all.

    ``pem`` has the texts of both authorities, for TLS.
    """

    client_authorities: tuple[x509.Certificate, ...] = ()
    proxy_authorities: tuple[x509.Certificate, ...] = ()
    allowed_names: frozenset[str] = frozenset()
    user_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ("x-remote-uid",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    pem: str = ""


def read_trust(config_map: Mapping[str, Any] | None) -> FrontProxyTrust:
    """Read the ConfigMap; if it is missing or unusable, nobody is trusted."""
    data = (config_map or {}).get("data") or {}
    clients = data.get("client-ca-file", "")
    proxies = data.get("requestheader-client-ca-file", "")
    try:
        return FrontProxyTrust(
            client_authorities=_certificates(clients),
            proxy_authorities=_certificates(proxies),
            allowed_names=frozenset(_names(data, "requestheader-allowed-names")),
            user_headers=_headers(data, "username", FrontProxyTrust().user_headers),
            uid_headers=_headers(data, "uid", FrontProxyTrust().uid_headers),
            group_headers=_headers(data, "group", FrontProxyTrust().group_headers),
            extra_prefixes=tuple(
                name.lower() for name in _names(data, "requestheader-extra-headers-prefix")
            )
            or FrontProxyTrust().extra_prefixes,
            pem=clients + "\n" + proxies if clients or proxies else "",
        )
    except (ValueError, TypeError) as error:
        log.warning("no client certificate is trusted", config_map=NAME, error=str(error))
        return FrontProxyTrust()


def is_issued_by(certificate: x509.Certificate, authorities: Iterable[x509.Certificate]) -> bool:
    """Whether one of the authorities itself signed a certificate.

    The TLS handshake has already checked validity, purpose and path against all authorities. Which
    of them signed decides what the certificate may be used for.
    """
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def _certificates(pem: str) -> tuple[x509.Certificate, ...]:
    return tuple(x509.load_pem_x509_certificates(pem.encode())) if pem.strip() else ()


def _headers(data: Mapping[str, str], what: str, default: tuple[str, ...]) -> tuple[str, ...]:
    names = _names(data, f"requestheader-{what}-headers")
    return tuple(name.lower() for name in names) or default


def _names(data: Mapping[str, str], key: str) -> list[str]:
    names = json.loads(data.get(key) or "[]")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is no list of names")
    return names
