from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from multiqueue.kube.certificate_bundle import (
    Bundle,
    create_bundle,
    decode_secret,
    encode_secret,
    renew_bundle,
)
from multiqueue.kube.certificates import AUTHORITY_LIFETIME, SERVING_LIFETIME

T0 = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("svc.ns.svc", "127.0.0.1")
BUNDLE = create_bundle(HOSTS, T0)


def certificate(bundle: Bundle) -> x509.Certificate:
    return x509.load_pem_x509_certificate(bundle.certificate)


def authorities(bundle: Bundle) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle.authority)


def test_the_certificate_is_for_the_hosts_and_by_the_authority() -> None:
    names = certificate(BUNDLE).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert [str(name.value) for name in names.value] == list(HOSTS)
    certificate(BUNDLE).verify_directly_issued_by(authorities(BUNDLE)[0])


def test_a_good_bundle_stays() -> None:
    assert renew_bundle(BUNDLE, HOSTS, T0 + SERVING_LIFETIME / 2) is BUNDLE
    assert renew_bundle(BUNDLE, HOSTS[:1], T0) is BUNDLE


def test_an_ageing_certificate_is_renewed_by_the_same_authority() -> None:
    got = renew_bundle(BUNDLE, HOSTS, T0 + SERVING_LIFETIME * 0.7)
    assert got.authority == BUNDLE.authority
    assert got.certificate != BUNDLE.certificate


def test_the_authority_of_an_upstream_manager_is_kept() -> None:
    """Its replicas serve with it until they are replaced."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kueue-ca")])
    made_by_go = x509.SubjectKeyIdentifier(b"not what we would compute")
    authority = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(T0)
        .not_valid_after(T0 + AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(made_by_go, critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    pkcs1 = serialization.PrivateFormat.TraditionalOpenSSL
    pem = key.private_bytes(serialization.Encoding.PEM, pkcs1, serialization.NoEncryption())
    upstream = replace(BUNDLE, authority=authority, authority_key=pem)
    hosts = (*HOSTS, "10.0.0.1")
    got = renew_bundle(upstream, hosts, T0)
    assert got.authority == authority
    certificate(got).verify_directly_issued_by(authorities(got)[0])
    signed_by = certificate(got).extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    assert signed_by.value.key_identifier == made_by_go.digest
    assert renew_bundle(got, hosts, T0) is got


def test_a_new_host_needs_a_new_certificate() -> None:
    got = renew_bundle(BUNDLE, (*HOSTS, "10.0.0.1"), T0)
    assert got.authority == BUNDLE.authority
    assert got.certificate != BUNDLE.certificate


def test_an_ageing_authority_is_replaced_and_still_trusted() -> None:
    later = T0 + AUTHORITY_LIFETIME * 0.7
    got = renew_bundle(BUNDLE, HOSTS, later)
    assert len(authorities(got)) == 2
    assert authorities(got)[1] == authorities(BUNDLE)[0]
    certificate(got).verify_directly_issued_by(authorities(got)[0])
    again = renew_bundle(got, HOSTS, later + AUTHORITY_LIFETIME * 0.7)
    assert len(authorities(again)) == 2


def test_a_certificate_does_not_outlive_its_authority() -> None:
    late = T0 + AUTHORITY_LIFETIME - timedelta(days=1)
    got = renew_bundle(BUNDLE, HOSTS, late)
    assert certificate(got).not_valid_after_utc <= authorities(got)[0].not_valid_after_utc


@pytest.mark.parametrize("field", ["authority", "certificate", "certificate_key"])
def test_an_edited_bundle_is_made_anew(field: str) -> None:
    parts = {name: getattr(BUNDLE, name) for name in Bundle.__slots__}
    got = renew_bundle(Bundle(**{**parts, field: b"garbage"}), HOSTS, T0)
    certificate(got).verify_directly_issued_by(authorities(got)[0])


def test_a_certificate_of_another_authority_is_not_shown() -> None:
    other = create_bundle(HOSTS, T0)
    parts = {name: getattr(BUNDLE, name) for name in Bundle.__slots__}
    mixed = Bundle(**{**parts, "certificate": other.certificate})
    got = renew_bundle(mixed, HOSTS, T0)
    certificate(got).verify_directly_issued_by(authorities(got)[0])


def test_a_secret_keeps_the_bundle() -> None:
    secret = encode_secret(BUNDLE, namespace="ns", name="s")
    assert sorted(secret["data"]) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert decode_secret(secret) == BUNDLE


@pytest.mark.parametrize("data", [None, {}, {"ca.crt": "AA=="}, {"ca.crt": "?"}])
def test_an_incomplete_secret_has_none(data: dict | None) -> None:
    assert decode_secret({"data": data}) is None
