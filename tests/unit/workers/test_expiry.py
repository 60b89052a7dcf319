"""When credentials end, and from when on somebody is told."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from multiqueue.api.conditions import CREDENTIALS_EXPIRING, find_condition
from multiqueue.kube.certificates import create_authority, issue_client_certificate
from multiqueue.workers.clusters.notes import (
    apply_notes,
    find_next_warning,
    list_news,
    note_expiry,
)
from multiqueue.workers.kubeconfigs.credentials import SafeKubeconfig
from multiqueue.workers.kubeconfigs.expiry import Expiry, find_expiries

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR, HOUR = timedelta(days=365), timedelta(hours=1)


def encode(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def make_token(**claims: float) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(c).encode()).decode() for c in ({}, claims)]
    return ".".join([*parts, "signature"])


def source(*expiries: Expiry) -> SafeKubeconfig:
    return SafeKubeconfig(config={}, expiries=expiries)


def expiry(ends_at: datetime, *, lives: timedelta | None = None) -> Expiry:
    return Expiry(what="token", ends_at=ends_at, begins_at=ends_at - lives if lives else None)


def test_the_first_to_end_comes_first():
    authority = create_authority("workers", NOW)
    certificate = issue_client_certificate(authority, "manager", [], NOW)
    user = {
        "token": make_token(iat=NOW.timestamp(), exp=(NOW + HOUR).timestamp()),
        "client-certificate-data": encode(certificate.certificate),
    }
    cluster = {"certificate-authority-data": encode(authority.certificate)}
    got = find_expiries(cluster, user)
    assert [e.what for e in got] == ["token", "client certificate", "CA certificate"]
    assert (got[0].begins_at, got[0].ends_at) == (NOW, NOW + HOUR)


def test_of_a_bundle_of_authorities_the_last_counts():
    old, new = (create_authority("workers", NOW + age) for age in (-YEAR, timedelta()))
    bundle = {"certificate-authority-data": encode(old.certificate + new.certificate)}
    (got,) = find_expiries(bundle, {})
    assert got == find_expiries({"certificate-authority-data": encode(new.certificate)}, {})[0]


def test_an_authority_is_read_as_exactly_as_any_certificate():
    authority = create_authority("workers", NOW)
    (read,) = x509.load_pem_x509_certificates(authority.certificate)
    (got,) = find_expiries({"certificate-authority-data": encode(authority.certificate)}, {})
    assert (got.begins_at, got.ends_at) == (read.not_valid_before_utc, read.not_valid_after_utc)


def test_a_bundle_may_hold_certificates_that_are_no_authorities():
    old, issuer = create_authority("workers", NOW - 2 * YEAR), create_authority("others", NOW)
    leaf = issue_client_certificate(issuer, "server", [], NOW + 8 * YEAR)
    (got,) = find_expiries(
        {"certificate-authority-data": encode(old.certificate + leaf.certificate)}, {}
    )
    both = x509.load_pem_x509_certificates(old.certificate + leaf.certificate)
    assert got.ends_at == max(each.not_valid_after_utc for each in both)


@pytest.mark.parametrize("data", ["!!!", encode(b"no certificate"), 7, None])
def test_what_is_no_certificate_has_no_end(data):
    assert find_expiries({"certificate-authority-data": data}, {}) == ()


def test_what_lives_long_is_told_of_a_week_before():
    assert expiry(NOW, lives=YEAR).warn_at == NOW - timedelta(days=7)
    assert expiry(NOW).warn_at == NOW - timedelta(days=7)


def test_what_lives_short_is_told_of_in_its_last_tenth():
    """A token of an hour would otherwise be told of all its life."""
    assert expiry(NOW, lives=HOUR).warn_at == NOW - timedelta(minutes=6)


def test_the_condition_comes_with_the_warning_and_goes_with_the_new_credentials():
    old, new = source(expiry(NOW, lives=YEAR)), source(expiry(NOW + YEAR, lives=YEAR))
    early, late = NOW - timedelta(days=8), NOW - timedelta(days=6)
    assert find_next_warning(old, early) == NOW - timedelta(days=7)
    assert apply_notes((), [note_expiry(old, early)], now=early, observed_generation=1) == ()
    note = note_expiry(old, late)
    assert list_news((), [note]) == [note]
    conditions = apply_notes((), [note], now=late, observed_generation=1)
    assert find_condition(conditions, CREDENTIALS_EXPIRING).message.startswith(
        "the token expires at 2026-01-01T00:00:00Z"
    )
    assert list_news(conditions, [note]) == []
    renewed = apply_notes(conditions, [note_expiry(new, late)], now=late, observed_generation=1)
    assert find_condition(renewed, CREDENTIALS_EXPIRING).status == "False"
