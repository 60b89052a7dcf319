"""Our own certificate authority and its serving certificate. Pure.

Both are one `Bundle`, stored in a Secret with the keys that upstream uses. The bundle may list an
older authority certificate after the current one, so that a rotation never breaks a connection.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from multiqueue.kube import certificates
from multiqueue.kube.certificates import KeyPair

MAX_AUTHORITIES = 2
"""The current certificate and the one before it."""

_KEYS = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "certificate": "tls.crt",
    "certificate_key": "tls.key",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """PEM texts: authority certificates (current first), their key, serving certificate and key."""

    authority: bytes
    authority_key: bytes
    certificate: bytes
    certificate_key: bytes


def create_bundle(hosts: Sequence[str], now: datetime) -> Bundle:
    """Return a new authority with a serving certificate for these hosts."""
    return _issue(certificates.create_authority("multiqueue-ca", now), hosts, now)


def renew_bundle(bundle: Bundle | None, hosts: Sequence[str], now: datetime) -> Bundle:
    """Return a bundle that is valid for these hosts and far from its expiry.

    A bundle that is still good is returned unchanged. If its authority is still good, a new
    certificate is issued by it. Otherwise there is a new authority, and the old one stays trusted.
    """
    if bundle is None:
        return create_bundle(hosts, now)
    try:
        authority = x509.load_pem_x509_certificates(bundle.authority)[0]
        if _remaining(authority, now) < 1 / 3:
            fresh = create_bundle(hosts, now)
            return Bundle(
                authority=fresh.authority + _first_certificates(bundle.authority),
                authority_key=fresh.authority_key,
                certificate=fresh.certificate,
                certificate_key=fresh.certificate_key,
            )
        serving = x509.load_pem_x509_certificate(bundle.certificate)
        if _remaining(serving, now) < 1 / 3 or not set(hosts) <= set(_hosts_of(serving)):
            return _issue(KeyPair(bundle.authority, bundle.authority_key), hosts, now)
        serving.verify_directly_issued_by(authority)
        serialization.load_pem_private_key(bundle.certificate_key, password=None)
    except (ValueError, TypeError, IndexError, x509.ExtensionNotFound, InvalidSignature):
        return create_bundle(hosts, now)  # unreadable or mixed up: somebody edited the Secret
    return bundle


def encode_secret(bundle: Bundle, *, namespace: str, name: str) -> dict[str, Any]:
    """Return the Secret that keeps a bundle."""
    data = {key: base64.b64encode(getattr(bundle, field)).decode() for field, key in _KEYS.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "multiqueue"},
        },
        "type": "Opaque",
        "data": data,
    }


def decode_secret(secret: Mapping[str, Any]) -> Bundle | None:
    """Return the bundle in a Secret; None if it has none yet, or an incomplete one."""
    data = secret.get("data") or {}
    try:
        fields = {field: base64.b64decode(data[key]) for field, key in _KEYS.items()}
    except (KeyError, TypeError, binascii.Error):
        return None
    return Bundle(**fields) if all(fields.values()) else None


def _issue(authority: KeyPair, hosts: Sequence[str], now: datetime) -> Bundle:
    serving = certificates.issue_certificate(authority, hosts[0], hosts, now)
    return Bundle(
        authority=authority.certificate,
        authority_key=authority.key,
        certificate=serving.certificate,
        certificate_key=serving.key,
    )


def _first_certificates(pem: bytes) -> bytes:
    first = x509.load_pem_x509_certificates(pem)[: MAX_AUTHORITIES - 1]
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in first)


def _remaining(certificate: x509.Certificate, now: datetime) -> float:
    """Return the share of a certificate's lifetime that is left; negative after its expiry."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return (end - now) / (end - begin)


def _hosts_of(certificate: x509.Certificate) -> list[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]
