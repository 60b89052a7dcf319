"""Certificates of our own authorities: for the embedded API server and the webhooks."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)
"""How long before now certificates begin to be valid: the clocks of clients may differ."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, PEM-encoded."""

    certificate: bytes
    key: bytes


def create_authority(common_name: str, now: datetime) -> KeyPair:
    """Make a self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _begin(name, name, key, now)
        .not_valid_after(now + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _encode(certificate, key)


def issue_certificate(
    authority: KeyPair, common_name: str, hosts: Sequence[str], now: datetime
) -> KeyPair:
    """Sign a server certificate for these host names and addresses.

    Args:
        authority: The authority; if it has several certificates, the first one signs.
        common_name: Name shown to people; cut to the 64 characters that X.509 allows.
        hosts: Names and addresses by which clients may reach the server.
        now: The time of issue. The certificate expires no later than the authority's.

    Raises:
        ValueError, TypeError: The authority cannot be read or has a key of another kind.
    """
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])
    return _issue(authority, subject, (ExtendedKeyUsageOID.SERVER_AUTH, names), now)


def issue_client_certificate(
    authority: KeyPair, user: str, groups: Sequence[str], now: datetime
) -> KeyPair:
    """Sign a client certificate that names a user and groups to an API server.

    Raises:
        ValueError, TypeError: As ``issue_certificate``.
    """
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user[:64])])
    return _issue(authority, subject, (ExtendedKeyUsageOID.CLIENT_AUTH, None), now)


def _issue(
    authority: KeyPair,
    subject: x509.Name,
    purpose: tuple[x509.ObjectIdentifier, x509.SubjectAlternativeName | None],
    now: datetime,
) -> KeyPair:
    issuer = x509.load_pem_x509_certificates(authority.certificate)[0]
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    # RSA: an authority left by the upstream manager that we replace stays trusted.
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError("the authority's key is neither an elliptic curve's nor one of RSA")
    key = ec.generate_private_key(ec.SECP256R1())
    usage, names = purpose
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    builder = (
        _begin(subject, issuer.subject, key, now)
        .not_valid_after(min(now + SERVING_LIFETIME, issuer.not_valid_after_utc))
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(signed_by, critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _encode(builder.sign(issuer_key, hashes.SHA256()), key)


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
    )


def _encode(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
