"""Certificates of our own authorities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from multiqueue.kube.certificates import (
    AUTHORITY_LIFETIME,
    KeyPair,
    create_authority,
    issue_certificate,
    issue_client_certificate,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = create_authority("test-ca", T0)


def test_a_certificate_is_signed_by_its_authority_for_names_and_addresses() -> None:
    pair = issue_certificate(AUTHORITY, "server", ["server.local", "127.0.0.1"], T0)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["server.local", "127.0.0.1"]


def test_a_client_certificate_names_the_user_and_the_groups() -> None:
    pair = issue_client_certificate(AUTHORITY, "front-proxy", ["system:masters"], T0)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
    assert certificate.subject.rfc4514_string() == "CN=front-proxy,O=system:masters"
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_certificate_does_not_outlive_its_authority() -> None:
    late = T0 + AUTHORITY_LIFETIME - timedelta(days=1)
    pair = issue_certificate(AUTHORITY, "server", ["server.local"], late)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificate.not_valid_after_utc == T0 + AUTHORITY_LIFETIME


def test_an_unreadable_authority_is_an_error() -> None:
    with pytest.raises(ValueError, match="PEM"):
        issue_certificate(KeyPair(b"x", AUTHORITY.key), "server", ["server.local"], T0)
